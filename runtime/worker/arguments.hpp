// What the library tells zf-optimizer on its command line: where to run. (`ps` then shows it too.)
#pragma once

#include <string>
#include <vector>

#include "base/id_set.hpp"
#include "os/memory.hpp"

namespace zf {

/// What to do about a feature that the machine may refuse: nothing, try it, or fail without it. The command
/// line says no, try or must.
enum class Strictness { off, best_effort, required };

struct WorkerArguments {
  int rank = 0;
  CpuSet cpus;  ///< one pool thread on each
  NodeSet mems;
  MemoryPolicy memory_policy = MemoryPolicy::preferred;
  Strictness huge_pages = Strictness::off;
  Strictness lock_memory = Strictness::off;
  bool help = false;
  bool version = false;
};

/// Throws Error(usage): nothing at all, an unknown word, a missing or malformed value.
WorkerArguments parse_worker_arguments(const std::vector<std::string>& words);

/// The page behind --help.
std::string worker_help();

}  // namespace zf
