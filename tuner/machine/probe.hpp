// What `zf-tune probe` shows: the machine, what is allowed of it, and the ranks that will share it.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "machine/machine.hpp"
#include "machine/ranks.hpp"
#include "os/environment.hpp"

namespace zf {

struct Probe {
  Machine machine;
  RankCount ranks;
  RankGpus gpus;                             ///< of each of the ranks
  std::optional<EnvNumber> local_rank;       ///< which of the ranks this process is, where a launcher says so
  std::map<std::string, std::string> slurm;  ///< the SLURM_* variables that concern this node
};

/// Pure. Throws Error(usage) with the variable when a launcher's variable is no number.
Probe probe_of(Machine machine, const Environment& environment, std::optional<int> ranks_option);

/// One screen for a person, ended by a newline.
std::string probe_text(const Probe& probe);

/// The same for programs, ended by a newline. The keys are listed at the head of probe_json.cpp; they may
/// grow, and none of them changes its meaning.
std::string probe_json(const Probe& probe);

}  // namespace zf
