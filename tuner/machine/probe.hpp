// What `zf-tune probe` shows: the machine, what is allowed, and the ranks that share it.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "gpus/rank_gpus.hpp"
#include "machine/machine.hpp"
#include "machine/rank_count.hpp"
#include "os/environment.hpp"
#include "text/table.hpp"

namespace zf {

struct Probe {
  Machine machine;
  RankCount ranks;
  RankGpus gpus;                             ///< by rank
  std::optional<EnvNumber> local_rank;       ///< this process's rank, if a launcher set it
  std::map<std::string, std::string> slurm;  ///< the SLURM_* variables that concern this node
};

/// Throws Error(usage) with the variable if a launcher's variable is not a number. Pure.
Probe probe_of(Machine machine, const Environment& environment, std::optional<int> ranks_option,
               GpuShare share = {});

/// Returns one screen for a person, ended by a newline. Its lines have at most `width` columns, except words
/// that are longer.
std::string probe_text(const Probe& probe, std::size_t width = kUnlimitedWidth);

/// Returns the same for programs, ended by a newline. The head of probe_json.cpp lists the keys; keys may be
/// added, and none changes its meaning.
std::string probe_json(const Probe& probe);

}  // namespace zf
