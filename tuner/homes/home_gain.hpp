// Says what one division of the cores gains over another one. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpus/rank_gpus.hpp"
#include "homes/home_score.hpp"
#include "machine/machine.hpp"

namespace zf {

/// Returns the score of homes that rank_homes() or another caller made for the ranks of `gpus`. CPUs that are
/// not allowed do not count. Precondition: as many homes as `gpus`.
HomeScore score_of_homes(const Machine& machine, const RankGpus& gpus, const std::vector<CpuSet>& homes);

/// Returns the most important point in which `after` is better, in words with both numbers; nothing if it is
/// no better: "the worst rank has cores of 2 NUMA nodes, and could have cores of 1".
std::optional<std::string> gain_in_words(const HomeScore& before, const HomeScore& after);

}  // namespace zf
