#include "trial/trial_splits.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/format.hpp"
#include "plan/process_binding.hpp"
#include "search/contest.hpp"
#include "search/controls.hpp"

namespace zf {
namespace {

/// Returns the shape from which a candidate of the sweep was made. One without reserved cores shares the
/// home: any other leaves at least one core to training.
SplitShape measured_shape(const CandidateEvidence& candidate) {
  SplitShape shape;
  shape.pool_cores = candidate.pool_cores;
  shape.pool_pus_per_core = candidate.pool_threads > candidate.pool_cores ? 0 : 1;
  shape.placement = candidate.placement;
  shape.reserved_cores = candidate.idle_cores > 0 ? candidate.reserved_cores : 0;
  shape.pool_make = candidate.pool_make;
  shape.control = candidate.control;
  shape.shared = candidate.reserved_cores == 0;
  return shape;
}

/// Returns the shape of the plan's own split, which no candidate of the sweep has.
SplitShape intended_shape(const Plan& plan) {
  SplitShape shape;
  shape.pool_cores = plan.intent.pool_cores;
  shape.pool_pus_per_core = plan.intent.pool_pus_per_core;
  shape.placement = plan.intent.placement;
  shape.pool_make = plan.intent.pool_make;
  shape.shared = plan.intent.shared;
  if (plan.intent.idle_fraction > 0 && !plan.ranks.empty())
    shape.reserved_cores = plan.ranks.front().pt_reserved_cores;
  return shape;
}

/// Returns the shape of this candidate with pools of half, twice and four times as many cores, as far as
/// every home has them. A home that is not shared keeps at least one core for training.
std::vector<SplitShape> other_sizes(const CandidateEvidence& candidate, const std::vector<Home>& homes) {
  SplitShape shape = measured_shape(candidate);
  shape.control = Control::none;
  shape.reserved_cores = 0;
  int most = std::numeric_limits<int>::max();
  for (const Home& home : homes)
    most = std::min(most, static_cast<int>(home.cores.size()) - (shape.shared ? 0 : 1));
  std::vector<SplitShape> shapes;
  for (const int cores : {candidate.pool_cores / 2, candidate.pool_cores * 2, candidate.pool_cores * 4}) {
    if (cores < 1 || cores > most) continue;
    shape.pool_cores = cores;
    shapes.push_back(shape);
  }
  return shapes;
}

/// Returns whether a job of this framework can have a pool on a part of a shared home.
bool may_share_partly(Framework framework) { return shared_pools_of(framework) == SharedPools::any; }

bool is_partly_shared(const SplitShape& shape) { return shape.shared && shape.control == Control::none; }

/// The splits so far, each binding once.
class DistinctSplits {
 public:
  explicit DistinctSplits(const std::vector<Home>& homes) : homes_(homes) {}

  void add(const SplitShape& shape, int id) { add({split_of(homes_, shape), id}); }

  void add(TrialSplit split) {
    const bool known = std::any_of(splits_.begin(), splits_.end(), [&](const TrialSplit& other) {
      return same_cpus(other.split, split.split);
    });
    if (!known) splits_.push_back(std::move(split));
  }

  int size() const { return static_cast<int>(splits_.size()); }
  std::vector<TrialSplit> take() { return std::move(splits_); }

 private:
  const std::vector<Home>& homes_;
  std::vector<TrialSplit> splits_;
};

/// Adds the split that the plan has. It gets the name of the control that it equals, if there is one.
void add_own_split(const Plan& plan, const std::vector<Home>& homes, DistinctSplits& splits) {
  for (const CandidateEvidence& candidate : plan.evidence.candidates) {
    if (candidate.id == plan.choice.candidate) return splits.add(measured_shape(candidate), candidate.id);
  }
  if (plan.intent.pool_cores < 1) return;
  const Split own = split_of(homes, intended_shape(plan));
  for (const Control control : kControls) {
    if (control != Control::unbound && same_cpus(split_of(homes, control_shape(control)), own))
      return splits.add(control_shape(control), -1);
  }
  splits.add(own.shape, -1);
}

/// Returns the eligible candidates of the sweep that a job of this framework can have, the fastest first.
std::vector<CandidateEvidence> fastest_first(const Plan& plan) {
  std::vector<CandidateEvidence> measured = plan.evidence.candidates;
  std::erase_if(measured, [&](const CandidateEvidence& candidate) {
    return !is_eligible(candidate) ||
           (is_partly_shared(measured_shape(candidate)) && !may_share_partly(plan.workload.framework));
  });
  std::stable_sort(measured.begin(), measured.end(),
                   [](const auto& a, const auto& b) { return a.period_ns_median < b.period_ns_median; });
  return measured;
}

/// Returns up to `sizes` pools: the sweep's fastest, its other sizes, then the next fastest.
std::vector<TrialSplit> pools_of_sweep(const Plan& plan, const std::vector<Home>& homes, int sizes) {
  DistinctSplits pools(homes);
  const std::vector<CandidateEvidence> measured = fastest_first(plan);
  if (measured.empty()) return {};
  const CandidateEvidence& fastest = measured.front();
  pools.add(measured_shape(fastest), fastest.id);
  for (const SplitShape& shape : other_sizes(fastest, homes)) {
    const auto known = std::find_if(measured.begin(), measured.end(), [&](const auto& candidate) {
      return same_cpus(split_of(homes, measured_shape(candidate)), split_of(homes, shape));
    });
    if (known == measured.end() && is_partly_shared(shape) && !may_share_partly(plan.workload.framework))
      continue;
    if (pools.size() < sizes) pools.add(shape, known == measured.end() ? -1 : known->id);
  }
  for (const CandidateEvidence& candidate : measured) {
    if (pools.size() < sizes) pools.add(measured_shape(candidate), candidate.id);
  }
  return pools.take();
}

/// Returns what a job gets of a split with its optimizer in the training process: the CPUs of each rank's
/// process and the number of its threads. Nothing for unbound.
std::optional<std::vector<std::pair<CpuSet, int>>> processes_of(const Split& split, Framework framework) {
  if (split.shape.control == Control::unbound) return std::nullopt;
  std::vector<std::pair<CpuSet, int>> processes;
  for (std::size_t rank = 0; rank < split.ranks.size(); ++rank) {
    const ProcessCpus process =
        process_cpus(binding_of_split(static_cast<int>(rank), split.ranks[rank]), framework);
    processes.emplace_back(process.cpus, process.threads);
  }
  return processes;
}

bool steps_in_training_process(Framework framework) {
  return framework == Framework::torch || framework == Framework::deepspeed_offload;
}

}  // namespace

std::vector<TrialSplit> trial_splits(const Plan& plan, const std::vector<Home>& homes, int sizes) {
  DistinctSplits splits(homes);
  add_own_split(plan, homes, splits);
  for (TrialSplit& pool : pools_of_sweep(plan, homes, sizes)) splits.add(std::move(pool));
  for (const Control control : kControls) {
    const CandidateEvidence* const found = control_of(plan.evidence, control);
    splits.add(control_shape(control), found == nullptr ? -1 : found->id);
  }
  return splits.take();
}

std::vector<TrialSplit> without_equal_jobs(std::vector<TrialSplit> splits, Framework framework) {
  if (!steps_in_training_process(framework)) return splits;
  std::vector<TrialSplit> kept;
  for (TrialSplit& split : splits) {
    const auto processes = processes_of(split.split, framework);
    const bool known = std::any_of(kept.begin(), kept.end(), [&](const TrialSplit& other) {
      return processes_of(other.split, framework) == processes;
    });
    if (!known) kept.push_back(std::move(split));
  }
  return kept;
}

bool names_exec(const std::vector<std::string>& command) {
  std::string text;
  for (const std::string& word : command) text += word + " ";
  return text.find("zf-tune exec ") != std::string::npos;
}

std::string reach_of_splits(Framework framework, const std::vector<TrialSplit>& splits) {
  const std::string begin =
      format_text("The plan's framework is {}: each run is started on its whole home, whatever the split",
                  name_of(framework));
  switch (framework) {
    case Framework::native:
      return "";
    case Framework::torch:
    case Framework::deepspeed_offload:
      return format_text("{}. So only \"{}\" is compared with unbound.", begin, splits.front().split.label);
    case Framework::deepspeed_zenflow:
    case Framework::superoffload:
      return begin +
             ". The runs differ only if COMMAND takes its cores from the plan in ZF_PLAN (zf-tune export "
             "--for deepspeed --config).";
    case Framework::unknown:
      break;
  }
  return begin +
         ". The runs differ only if COMMAND opens the runtime or reads the plan in ZF_PLAN. If it does not, "
         "make the plan with --framework.";
}

std::string launcher_warning(const std::vector<std::string>& command, int ranks) {
  if (ranks < 2 || names_exec(command)) return "";
  return format_text(
      "the command does not name zf-tune exec: unless something in it binds each of its {} ranks by the plan "
      "in ZF_PLAN, all runs are started alike, and the winner is chance",
      ranks);
}

}  // namespace zf
