// The command line by which the library tells zf-optimizer where to run. `ps` shows it too.
#pragma once

#include <string>
#include <vector>

#include "base/id_set.hpp"
#include "base/memory_policy.hpp"
#include "base/strictness.hpp"

namespace zf {

struct WorkerArguments {
  int rank = 0;
  CpuSet cpus;      ///< of the pool: one thread runs on each
  int threads = 0;  ///< if not 0: so many threads, and each may run on all of `cpus`
  CpuSet home;      ///< all CPUs of the rank, for a pool that has lost its own; empty: those of the pool
  NodeSet mems;
  MemoryPolicy memory_policy = MemoryPolicy::preferred;
  Strictness huge_pages = Strictness::off;
  Strictness lock_memory = Strictness::off;
  std::string keep;         ///< not empty: this process only keeps the arena, under this name
  std::string keep_folder;  ///< where it is found
  int keep_s = 0;           ///< how long, once the trainer has ended
  bool help = false;
  bool version = false;
};

/// Parses the command line. Throws Error(usage) if it is empty, or if a word is unknown, or if a value is
/// missing or malformed.
WorkerArguments parse_worker_arguments(const std::vector<std::string>& words);

/// Returns the text of --help.
std::string worker_help();

}  // namespace zf
