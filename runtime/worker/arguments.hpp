// What the library tells zf-optimizer on its command line: where to run. (`ps` then shows it too.)
#pragma once

#include <string>
#include <vector>

#include "base/id_set.hpp"
#include "os/memory.hpp"

namespace zf {

/// no, as well as it can be, or not at all without it.
enum class Wish { no, can, must };

struct WorkerArguments {
  int rank = 0;
  CpuSet cpus;  ///< one pool thread on each
  NodeSet mems;
  MemoryPolicy memory_policy = MemoryPolicy::preferred;
  Wish huge_pages = Wish::no;
  Wish lock_memory = Wish::no;
  bool help = false;
  bool version = false;
};

/// Throws Error(usage): nothing at all, an unknown word, a missing or malformed value.
WorkerArguments parse_worker_arguments(const std::vector<std::string>& words);

/// The page behind --help.
std::string worker_help();

}  // namespace zf
