#include "tuner/sweep.hpp"

#include <algorithm>
#include <random>

#include "engine/working_set.hpp"
#include "tuner/choose.hpp"

namespace zf {
namespace {

/// The state of one search.
class Sweep {
 public:
  Sweep(const std::vector<Home>& homes, int update_interval, Meter& meter, const SweepLimits& limits,
        const std::function<void(const SweepProgress&)>& progress)
      : homes_(homes),
        update_interval_(update_interval),
        meter_(meter),
        limits_(limits),
        progress_(progress),
        random_(limits.seed) {
    result_.evidence.elements_per_rank = meter.elements_per_rank();
    result_.evidence.working_set_bytes_per_rank = meter.elements_per_rank() * WorkingSet::kBytesPerElement;
    result_.evidence.isa = meter.isa();
    result_.evidence.scale = meter.scale();
    result_.evidence.accuracy_wanted = kTie;
  }

  SweepResult run() {
    visit_new(coarse_shapes(homes_));
    refine();
    for (int round = 1; round < limits_.rounds && !out_of_time_; ++round) {
      std::vector<int> order;
      for (const CandidateEvidence& candidate : result_.evidence.candidates) order.push_back(candidate.id);
      std::shuffle(order.begin(), order.end(), random_);
      for (const int id : order) {
        if (has_time()) visit(id, round);
      }
    }
    return std::move(result_);
  }

 private:
  /// Round 0: each shape becomes a candidate when its turn comes and there is time for it.
  void visit_new(std::vector<SplitShape> shapes) {
    std::shuffle(shapes.begin(), shapes.end(), random_);
    for (const SplitShape& shape : shapes) {
      if (!has_time()) return;
      visit(add(shape), 0);
    }
  }

  /// Closes in on the knee until its neighbours have all been measured.
  void refine() {
    while (!out_of_time_ && !result_.splits.empty()) {
      const SplitShape knee = result_.splits[static_cast<std::size_t>(knee_of(result_.evidence).id)].shape;
      const auto shapes = refined_shapes(homes_, knee, tried_);
      if (shapes.empty()) return;
      visit_new(shapes);
    }
  }

  int add(const SplitShape& shape) {
    Split split = split_of(homes_, shape);
    const CandidateEvidence candidate = candidate_of(static_cast<int>(result_.splits.size()), split);
    result_.evidence.candidates.push_back(candidate);
    result_.splits.push_back(std::move(split));
    tried_.push_back(shape);
    return candidate.id;
  }

  void visit(int id, int round) {
    const auto index = static_cast<std::size_t>(id);
    const Nanoseconds start = meter_.now();
    const auto samples =
        meter_.measure(result_.splits[index], limits_.samples_per_visit, start_ns_ + limits_.budget_ns);
    longest_visit_ns_ = std::max(longest_visit_ns_, meter_.now() - start);
    for (const SplitSample& sample : samples) {
      result_.evidence.samples.push_back({id, round, sample});
    }
    summarize(result_.evidence, static_cast<int>(homes_.size()), update_interval_);
    ++visits_;
    if (progress_) {
      progress_({round, visits_, meter_.now() - start_ns_, &result_.evidence.candidates[index],
                 &knee_of(result_.evidence)});
    }
  }

  bool has_time() {
    if (limits_.stop && limits_.stop()) out_of_time_ = true;
    const bool first = visits_ == 0;
    if (!first && meter_.now() - start_ns_ + longest_visit_ns_ > limits_.budget_ns) out_of_time_ = true;
    return !out_of_time_;
  }

  const std::vector<Home>& homes_;
  int update_interval_;
  Meter& meter_;
  SweepLimits limits_;
  const std::function<void(const SweepProgress&)>& progress_;
  std::mt19937 random_;
  std::vector<SplitShape> tried_;
  SweepResult result_;
  Nanoseconds start_ns_ = meter_.now();
  Nanoseconds longest_visit_ns_ = 0;
  int visits_ = 0;
  bool out_of_time_ = false;
};

}  // namespace

SweepResult sweep(const std::vector<Home>& homes, int update_interval, Meter& meter,
                  const SweepLimits& limits, const std::function<void(const SweepProgress&)>& progress) {
  return Sweep(homes, update_interval, meter, limits, progress).run();
}

}  // namespace zf
