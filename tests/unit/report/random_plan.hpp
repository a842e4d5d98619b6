// Makes random plans as `tune` and `trial` make them: other jobs, few visits or many, calm or noisy machines,
// with visits after the choice or without, refuted choices, splits that a plan cannot express.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../plan/make_plan.hpp"
#include "report/reasons.hpp"
#include "search/contest.hpp"
#include "search/tuning.hpp"
#include "trial/trial.hpp"

namespace zf {

class RandomPlan {
 public:
  explicit RandomPlan(unsigned seed) : random_(seed) {}

  /// Returns a plan with evidence; in one of five cases a trial chose it.
  Plan make() {
    Plan plan = make_plan();
    plan.trial.reset();
    plan.workload = workload();
    plan.evidence = evidence(plan.workload);
    const Nanoseconds telling_ns = chance(0.5) ? 170 * kSecondNs : 0;
    plan.choice = choose(plan.evidence, plan.workload);
    const Decision decision = decide(contest_of(plan.evidence, plan.workload));
    plan.choice.reason = reason_of(plan.evidence, plan.workload, decision, telling_ns);
    if (chance(0.2)) try_job(plan);
    return plan;
  }

 private:
  bool chance(double probability) { return uniform_(random_) < probability; }
  double between(double low, double high) { return low + (high - low) * uniform_(random_); }
  double log_between(double low, double high) { return std::exp(between(std::log(low), std::log(high))); }
  int one_of(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  Workload workload() {
    constexpr Mode kModes[] = {Mode::wait, Mode::overlap, Mode::backward, Mode::exact};
    Workload job{"random", 1'000'000, 2, one_of(1, 4), {}, kModes[one_of(0, 3)]};
    if (chance(0.3)) job.step_factor = between(0.6, 1.6);
    if (chance(0.3)) {
      job.training = TrainingDemand{.parameter_bytes = 1'000'000, .copy_bytes_per_s = 10'000'000'000};
      job.training->last_gradient_ns = 50'000;
    }
    return job;
  }

  /// The times of one split, if nothing disturbed them.
  struct Truth {
    double step_ns;
    double training_ns;
  };

  static CandidateEvidence candidate_of(int id, Control control, int pool) {
    CandidateEvidence candidate;
    candidate.id = id;
    candidate.control = control;
    candidate.pool_threads = candidate.pool_cores = pool;
    candidate.reserved_cores = control == Control::shared ? 0 : std::max(1, 16 - pool);
    candidate.label = control == Control::shared          ? "shared home"
                      : control == Control::half          ? "half and half"
                      : control == Control::eighty_twenty ? "80/20"
                      : control == Control::unbound       ? "unbound"
                                                          : "pool " + std::to_string(pool) + ", compact";
    return candidate;
  }

  void add_candidates(Evidence& evidence, const Workload& job) {
    std::vector<std::pair<Control, int>> splits;
    if (chance(0.9)) splits.emplace_back(Control::shared, 16);
    if (chance(0.8)) splits.emplace_back(Control::half, 8);
    if (chance(0.6)) splits.emplace_back(Control::eighty_twenty, 13);
    if (splits.empty()) splits.emplace_back(Control::none, 5);
    if (chance(0.9)) splits.emplace_back(Control::unbound, 16);
    controls_ = splits.size();
    for (int pool = 1; pool < 5; ++pool) {
      if (chance(0.5)) splits.emplace_back(Control::none, pool);
    }
    // How much splits differ, and how long the step is beside training.
    const double spread = chance(0.3) ? 0.003 : chance(0.5) ? 0.02 : 0.2;
    const double step = log_between(0.2, 3) / job.step_factor.value_or(1);
    const bool trains = chance(0.85);
    const double unit = log_between(1e5, 1e9);
    for (const auto& [control, pool] : splits) {
      evidence.candidates.push_back(
          candidate_of(static_cast<int>(evidence.candidates.size()), control, pool));
      truths_.push_back({unit * step * job.update_interval * std::exp(spread * normal_(random_)),
                         trains ? unit * std::exp(spread * normal_(random_)) : 0});
    }
  }

  void visit(Evidence& evidence, int id, int round, double factor) {
    const double off = factor * std::exp(visit_noise_ * normal_(random_));
    const auto& [step_ns, training_ns] = truths_[static_cast<std::size_t>(id)];
    for (int i = 0; i < samples_; ++i) {
      SplitSample times;
      times.step_ns = 1000 + std::llround(step_ns * off * std::exp(noise_ * normal_(random_)));
      times.roofline_ns = times.step_ns;
      if (training_ns > 0)
        times.training_ns = std::llround(training_ns * off * std::exp(noise_ * normal_(random_)));
      evidence.samples.push_back({id, round, times});
    }
  }

  /// Removes the candidates that no visit reached, as a sweep makes none of these.
  void drop_unvisited(Evidence& evidence) {
    std::erase_if(evidence.candidates, [&](const CandidateEvidence& candidate) {
      return std::none_of(evidence.samples.begin(), evidence.samples.end(),
                          [&](const Sample& sample) { return sample.candidate == candidate.id; });
    });
  }

  /// Visits the choice, its runner-up, unbound and the shared home, as sweep() does. One of them may have
  /// changed.
  void check(Evidence& evidence, const Workload& job, int round) {
    const Contest contest = contest_of(evidence, job);
    const std::size_t winner = judge(contest).winner;
    std::vector<int> ids;
    for (const auto index :
         {std::optional(winner), runner_up_of(contest, winner), control_index(contest, Control::unbound),
          control_index(contest, Control::shared)}) {
      if (!index) continue;
      const int id = evidence.candidates[*index].id;
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    }
    if (ids.size() < 2) return;
    evidence.estimate_round = round;
    const auto changed = static_cast<std::size_t>(one_of(0, static_cast<int>(ids.size()) - 1));
    const double factor = chance(0.4) ? log_between(0.7, 1.4) : 1;
    const int rounds = chance(0.2) ? 1 : one_of(2, 6);
    for (int i = 0; i < rounds; ++i) {
      const bool cut_short = i + 1 == rounds && chance(0.3);
      for (std::size_t at = 0; at < (cut_short ? 1 : ids.size()); ++at)
        visit(evidence, ids[at], round + i, at == changed ? factor : 1);
    }
  }

  Evidence evidence(const Workload& job) {
    Evidence evidence;
    evidence.elements_per_rank = 1 << 20;
    evidence.working_set_bytes_per_rank = 64 << 20;
    evidence.isa = chance(0.2) ? kSimulated : "avx512";
    evidence.scale = chance(0.5) ? 1 : 0.25;
    constexpr double kAccuracies[] = {0.02, 0.02, 0.005, 0.05};
    evidence.accuracy_wanted = kAccuracies[one_of(0, 3)];
    truths_.clear();
    noise_ = log_between(1e-4, 0.1);
    visit_noise_ = chance(0.1) ? 0 : log_between(1e-4, chance(0.3) ? 0.6 : 0.05);
    constexpr int kSamples[] = {1, 2, 4, 8};
    samples_ = kSamples[one_of(0, 3)];
    add_candidates(evidence, job);
    const std::size_t all = evidence.candidates.size();
    const std::size_t explored = chance(0.1) ? 1 : controls_;
    for (std::size_t i = 0; i < explored; ++i) visit(evidence, static_cast<int>(i), 0, 1);
    int round = 1;
    const int rounds = explored < controls_ || chance(0.2) ? 0 : one_of(1, 5);
    for (; round <= rounds; ++round) {
      visit(evidence, 0, round, 1);
      for (std::size_t i = 1; i < all; ++i) {
        if (chance(0.6)) visit(evidence, static_cast<int>(i), round, 1);
      }
    }
    drop_unvisited(evidence);
    summarize(evidence, job);
    if (chance(0.7)) check(evidence, job, round);
    summarize(evidence, job);
    return evidence;
  }

  /// Lets the job itself choose, as try_job() does.
  void try_job(Plan& plan) {
    Trial trial{.command = "job", .metric = "ms", .higher_is_better = chance(0.3), .candidates = {}};
    const int repetitions = one_of(1, 4);
    const double noise = log_between(1e-4, 0.1);
    for (const CandidateEvidence& measured : plan.evidence.candidates) {
      TrialCandidate candidate;
      candidate.label = measured.label;
      candidate.control = measured.control;
      candidate.shared = is_shared(measured);
      candidate.pool_threads = measured.pool_threads;
      const double level = 100 * std::exp(0.05 * normal_(random_));
      const int runs = chance(0.2) ? 1 : repetitions;
      for (int run = 0; run < runs; ++run) {
        const double middle = level * std::exp(noise * normal_(random_));
        candidate.runs.push_back({middle * 0.999, middle, middle * 1.001});
      }
      trial.candidates.push_back(std::move(candidate));
    }
    judge_trial(trial, plan.workload.mode);
    plan.choice.reason = reason_of(trial, plan.workload.mode);
    const CandidateEvidence& won = plan.evidence.candidates[static_cast<std::size_t>(trial.winner)];
    plan.choice.candidate = won.id;
    plan.choice.period_ns_median = won.period_ns_median;
    plan.trial = std::move(trial);
  }

  std::mt19937 random_;
  std::uniform_real_distribution<double> uniform_{0, 1};
  std::normal_distribution<double> normal_;
  std::vector<Truth> truths_;
  std::size_t controls_ = 0;
  double noise_ = 0;
  double visit_noise_ = 0;
  int samples_ = 0;
};

}  // namespace zf
