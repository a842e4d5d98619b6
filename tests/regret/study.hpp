// The cases on which the search is tried: simulated machines with their workloads, and the best split of each
// by brute force.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "plan/choice.hpp"
#include "plan/period.hpp"
#include "search/sweep.hpp"
#include "simulate/simulated_job.hpp"

namespace zf {

/// A machine, and the workload that it runs.
struct Case {
  std::string name;
  SimulatedMachine machine;
  Workload workload;
  int ranks = 1;
  /// Times vary so much that a choice cannot be as good as on other machines.
  bool noisy = false;
};

/// Returns a case for each machine file of a folder, by name.
std::vector<Case> cases_in(const std::filesystem::path& folder);

/// Returns that many cases from a generator: machines of 4 to 256 cores with all constants drawn at random.
std::vector<Case> generated_cases(int count, std::uint64_t seed);

/// Noise that can make a visit's median an outlier, if it is taken of periods: a period is as long as the
/// slower of its two sides.
struct Tails {
  double rate = 0;
  double factor = 1;
  bool is_common = false;  ///< both sides are slow at once
};

/// A fifth of the times three times as long, and a tenth five times: each side by itself, and both at once.
inline constexpr Tails kTails[] = {{0.2, 3, false}, {0.2, 3, true}, {0.1, 5, false}, {0.1, 5, true}};

/// Returns the case with these outliers, and visits that differ by 0.5 %.
Case with_tails(Case one, const Tails& tails);

/// Returns a node of 2 x 48 cores with four ranks of a small model. Its training waits for its launches.
Case large_case();

/// Returns Grace-Hopper with that many cores for one rank, and as much bandwidth per core.
Case scaled_case(const std::filesystem::path& machines, int cores);

/// Returns the case with another mode and update interval.
Case in_mode(Case one, Mode mode, int update_interval);

/// A job on its simulated machine, and the shortest period of all splits without noise.
struct Trialed {
  explicit Trialed(const Case& one);
  double period_of(const Split& split) const;
  /// Returns how much longer than the best split's period this one is, relative.
  double regret_of(const Split& split) const { return period_of(split) / best_ns - 1; }

  SimulatedJob job;
  Schedule schedule;  ///< of the whole model
  Split best;
  double best_ns = 0;
  std::vector<double> periods;  ///< of all splits; in the same order for all jobs of one machine
};

/// Returns the smallest loss that a split could have on the worst of the other jobs, against the best split
/// of that job, if its period is at most `regret` longer than the best one of the job as its workload says. A
/// rule that keeps this regret cannot lose less, whatever it knows.
double smallest_loss(const Trialed& expected, const std::vector<Trialed>& others, double regret);

struct Swept {
  SweepResult result;
  Choice choice;
  int find_visits = 0;
  int estimate_visits = 0;
  const Split& chosen() const { return result.splits[static_cast<std::size_t>(choice.candidate)]; }
};

/// Sweeps with the default budget. The same seed gives the same result.
Swept swept(const Trialed& trialed, int seed);

/// Calls `work` with each index below `count`, on as many threads as there are CPUs.
void for_each_index(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace zf
