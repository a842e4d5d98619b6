// Reads and writes lists like "0,4-11,21-26", as the kernel, taskset, numactl and Slurm write them.
#pragma once

#include <string>
#include <string_view>

#include "base/id_set.hpp"

namespace zf {

/// The highest OS index that a list may name. It is far above any machine, and keeps a typo from becoming
/// 2^31 PUs.
inline constexpr int kMaxOsIndex = 65535;

/// Reads "0,4-11". Blanks and NUL bytes may surround any part. Also reads strides, "0-15:2" (taskset), and
/// groups, "0-15:2/4" (the first 2 of every 4, as the kernel writes them). An empty or blank text is the
/// empty set. Throws Error(usage) that names `what` (the flag, field or file that the text came from), the
/// text, and its first wrong part: "4-2", "a", "1,,2".
CpuSet parse_cpu_list(std::string_view text, std::string_view what);
NodeSet parse_node_list(std::string_view text, std::string_view what);

/// Returns the canonical text: ascending, disjoint, ranges of two or more as "a-b", no blanks, "" for the
/// empty set. Parsing it gives the same set again.
std::string print(const CpuSet& cpus);
std::string print(const NodeSet& nodes);

/// Returns the list with its noun: "CPU 3" or "CPUs 0,4-7".
std::string print_cpus(const CpuSet& cpus);

/// Returns the list with its noun: "node 1" or "nodes 0-1".
std::string print_nodes(const NodeSet& nodes);

/// Returns the CPUs as the kernel prints a mask: words of 32 bits in hexadecimal with a comma between them,
/// the highest first ("00000001,80000000"). Precondition: not empty.
std::string print_mask(const CpuSet& cpus);

}  // namespace zf
