// The list notation of this field: "0,4-11,21-26". What the kernel, taskset, numactl and Slurm write.
#pragma once

#include <string>
#include <string_view>

#include "base/id_set.hpp"

namespace zf {

/// The highest OS index that a list may name; far above any machine, so that a typo is not 2^31 PUs.
inline constexpr int kMaxOsIndex = 65535;

/// Reads "0,4-11", with blanks around any part, strides "0-15:2" (taskset) and groups "0-15:2/4" (the first
/// 2 of every 4, the kernel). An empty or blank text is the empty set.
/// Throws Error(usage) that names `what` (the flag, field or file the text came from), the text, and the
/// first part of it that is wrong: "4-2", "a", "1,,2".
CpuSet parse_cpu_list(std::string_view text, std::string_view what);
NodeSet parse_node_list(std::string_view text, std::string_view what);

/// Canonical form: ascending, disjoint, ranges of two and more as "a-b", no blanks. Empty set: "".
/// parse(print(x)) == x.
std::string print(const CpuSet& cpus);
std::string print(const NodeSet& nodes);

}  // namespace zf
