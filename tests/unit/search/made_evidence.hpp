// Evidence for tests of what is decided by it, and of what is said of that.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "search/contest.hpp"

namespace zf {

inline const Workload kWorkload{"test", 1'000'000, 1, 4, {}, Mode::overlap};

struct Times {
  int threads;
  Nanoseconds step_ns;
  Nanoseconds training_ns = 0;
  Control control = Control::none;
  bool shared = false;
};

/// Returns three rounds of four samples, each off by at most `noise`.
inline Evidence evidence_of(const std::vector<Times>& pools, double noise = 0.001,
                            const Workload& workload = kWorkload) {
  Evidence evidence;
  evidence.elements_per_rank = 1'000'000;
  evidence.accuracy_wanted = kDefaultTie;
  for (const Times& times : pools) {
    const auto id = static_cast<int>(evidence.candidates.size());
    CandidateEvidence candidate;
    candidate.id = id;
    candidate.label = "pool " + std::to_string(times.threads);
    candidate.control = times.control;
    candidate.pool_threads = candidate.pool_cores = times.threads;
    candidate.reserved_cores = times.shared ? 0 : 1;
    evidence.candidates.push_back(candidate);
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 4; ++i) {
        // Differs by round and candidate, so that there is noise between rounds too.
        const double off = 1 + noise * ((i - 1.5) / 1.5 + ((round + id) % 3 - 1)) / 2;
        SplitSample sample;
        sample.step_ns = static_cast<Nanoseconds>(static_cast<double>(times.step_ns) * off);
        sample.roofline_ns = times.step_ns;
        sample.training_ns = static_cast<Nanoseconds>(static_cast<double>(times.training_ns) * off);
        evidence.samples.push_back({id, round, sample});
      }
    }
  }
  summarize(evidence, workload);
  return evidence;
}

inline Workload in_mode(Mode mode, int update_interval = 4) {
  Workload workload = kWorkload;
  workload.mode = mode;
  workload.update_interval = update_interval;
  return workload;
}

/// Returns two pools that took 1.0 and 1.1 ms in the search, and these times in three rounds of visits after
/// the choice.
inline Evidence estimated_evidence(Nanoseconds first_after, Nanoseconds second_after) {
  Evidence evidence = evidence_of({{8, 1'000'000}, {4, 1'100'000}});
  evidence.estimate_round = 3;
  for (int round = 3; round < 6; ++round) {
    for (const auto& [id, step_ns] :
         {std::pair(0, first_after), std::pair(1, second_after + Nanoseconds{1000} * round)}) {
      evidence.samples.push_back({id, round, {.step_ns = step_ns, .roofline_ns = step_ns}});
    }
  }
  summarize(evidence, kWorkload);
  return evidence;
}

/// Returns pools. 6 and 7 threads lose little if the job differs, and the smaller pool is preferred.
/// The visits after the choice, if `checked`, show that it is slower.
inline Evidence refuted_evidence(bool checked) {
  Evidence evidence =
      evidence_of({{8, 2'000'000, 500'000}, {6, 900'000, 505'000}, {7, 850'000, 504'000}}, 0.001);
  if (!checked) return evidence;
  evidence.estimate_round = 3;
  for (int round = 3; round < 6; ++round) {
    for (const auto& [id, training_ns] :
         {std::pair(0, Nanoseconds{500'000}), std::pair(1, Nanoseconds{550'000})}) {
      const Nanoseconds ns = training_ns + Nanoseconds{100} * round * (id + 1);
      evidence.samples.push_back(
          {id, round, {.step_ns = 900'000, .roofline_ns = 900'000, .training_ns = ns}});
    }
  }
  summarize(evidence, kWorkload);
  return evidence;
}

}  // namespace zf
