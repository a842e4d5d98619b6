// The command line by which the library tells zf-optimizer where to run. `ps` shows it too.
#pragma once

#include <string>
#include <vector>

#include "base/enum_names.hpp"
#include "base/id_set.hpp"
#include "base/memory_policy.hpp"

namespace zf {

/// The reaction to a feature that the machine may refuse: do not ask for it, try it, or fail without it.
enum class Strictness { off, best_effort, required };

template <>
inline constexpr auto kEnumNames<Strictness> = std::to_array<EnumName<Strictness>>(
    {{Strictness::off, "no"}, {Strictness::best_effort, "try"}, {Strictness::required, "must"}});

struct WorkerArguments {
  int rank = 0;
  CpuSet cpus;  ///< of the pool: one thread runs on each
  CpuSet home;  ///< all CPUs of the rank, for a pool that has lost its own; empty: those of the pool
  NodeSet mems;
  MemoryPolicy memory_policy = MemoryPolicy::preferred;
  Strictness huge_pages = Strictness::off;
  Strictness lock_memory = Strictness::off;
  bool help = false;
  bool version = false;
};

/// Parses the command line. Throws Error(usage) if it is empty, or if a word is unknown, or if a value is
/// missing or malformed.
WorkerArguments parse_worker_arguments(const std::vector<std::string>& words);

/// Returns the text of --help.
std::string worker_help();

}  // namespace zf
