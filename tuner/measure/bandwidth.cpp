#include "measure/bandwidth.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/step_types.hpp"
#include "children/child_output.hpp"
#include "compare/statistics.hpp"
#include "engine/working_set.hpp"
#include "measure/machine_meter.hpp"
#include "measure/working_set_size.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

constexpr int kMaxPairs = 25;
constexpr std::string_view kError = "error ";

/// Returns the plan's pools as a split that the meter can measure. Nothing trains in it.
Split split_of_pools(const Plan& plan) {
  Split split;
  split.label = "the plan's pools";
  for (const RankBinding& binding : plan.ranks) {
    RankSplit rank;
    rank.optimizer = binding.optimizer.cpus;
    rank.pool.assign(rank.optimizer.begin(), rank.optimizer.end());
    rank.floats = binding.optimizer.threads.has_value();
    rank.pool.resize(static_cast<std::size_t>(pool_threads(binding.optimizer)));
    rank.pool_cores = static_cast<int>(rank.pool.size());
    rank.mems = binding.optimizer.mems;
    split.ranks.push_back(std::move(rank));
  }
  return split;
}

Bandwidth median_bandwidth(const std::vector<SplitSample>& samples, double bytes) {
  std::vector<double> rooflines;
  std::vector<double> steps;
  for (const SplitSample& sample : samples) {
    rooflines.push_back(bytes * 1e9 / static_cast<double>(sample.roofline_ns));
    steps.push_back(bytes * 1e9 / static_cast<double>(sample.step_ns));
  }
  return {median(rooflines), median(steps)};
}

/// Returns the bytes that a step moves, and a pass of the roofline loop.
double bytes_per_pass(const Plan& plan) {
  return static_cast<double>(plan.evidence.elements_per_rank * plan.ranks.size() *
                             measured_step_bytes(plan.intent.state_format));
}

/// Runs in the child. Returns "ROOFLINE STEP", or kError and the message of what went wrong.
std::string measured_text(const Plan& plan, Nanoseconds deadline_ns) {
  try {
    const RankWork work{.elements = plan.evidence.elements_per_rank,
                        .isa = chosen_isa(),
                        .framework = plan.workload.framework,
                        .roofline_each_round = true,
                        .format = plan.intent.state_format};
    MachineMeter meter(work, 1);
    const Bandwidth now =
        median_bandwidth(meter.measure(split_of_pools(plan), {kMaxPairs, deadline_ns}), bytes_per_pass(plan));
    return format_text("{} {}", now.roofline, now.step);
  } catch (const Error& error) {
    return format_text("{}{}", kError, error.what());
  }
}

/// Returns how much memory measure_bandwidth() needs.
std::uint64_t working_set_bytes(const Plan& plan) {
  return plan.evidence.elements_per_rank * plan.ranks.size() *
         WorkingSet::bytes_per_element(plan.intent.state_format);
}

std::string gigabytes(double bytes_per_s) { return format_text("{:.1f} GB/s", bytes_per_s / 1e9); }

}  // namespace

bool can_tell(const PlannedBandwidth& planned) { return planned.spread.roofline <= kMostSpread; }

PlannedBandwidth planned_bandwidth(const Plan& plan) {
  std::vector<SplitSample> samples;
  for (const Sample& sample : plan.evidence.samples) {
    if (sample.candidate == plan.choice.candidate && sample.times.roofline_ns > 0 && sample.times.step_ns > 0)
      samples.push_back(sample.times);
  }
  if (samples.empty() || plan.evidence.elements_per_rank == 0) {
    throw Error(Exit::usage, "the plan holds no measurement to compare this node with",
                "make the plan with zf-tune tune, which measures");
  }
  PlannedBandwidth planned;
  planned.median = median_bandwidth(samples, bytes_per_pass(plan));
  std::vector<double> rooflines;
  std::vector<double> steps;
  for (const SplitSample& sample : samples) {
    rooflines.push_back(static_cast<double>(sample.roofline_ns));
    steps.push_back(static_cast<double>(sample.step_ns));
    planned.loaded = planned.loaded || sample.training_ns > 0;
  }
  planned.spread = {.roofline = relative_spread(rooflines), .step = relative_spread(steps)};
  return planned;
}

std::optional<std::string> why_confined(const Plan& plan, const Allowed& allowed) {
  CpuSet cpus;
  NodeSet mems;
  std::size_t threads = 0;
  for (const RankBinding& rank : plan.ranks) {
    cpus |= rank.optimizer.cpus - allowed.cpus;
    mems |= rank.optimizer.mems - allowed.mems;
    threads += static_cast<std::size_t>(pool_threads(rank.optimizer));
  }
  if (!cpus.empty()) {
    std::string why = format_text("it may not use {}", print_cpus(cpus));
    for (const Exclusion& exclusion : allowed.exclusions) {
      if (exclusion.cpus.intersects(cpus)) why += format_text(", {}", exclusion.detail);
    }
    return why;
  }
  if (!mems.empty()) return format_text("it may not use the memory of {}", print_nodes(mems));
  if (allowed.cpu_quota && *allowed.cpu_quota < static_cast<double>(threads)) {
    return format_text("its CPU quota ({}) is {:.4g} for {}", allowed.cpu_quota_path, *allowed.cpu_quota,
                       print_count(threads, "thread"));
  }
  if (allowed.memory_bytes && *allowed.memory_bytes < working_set_bytes(plan)) {
    return format_text("its memory limit ({}) is {}, below the {} of the measurement", allowed.memory_path,
                       print_bytes(*allowed.memory_bytes), print_bytes(working_set_bytes(plan)));
  }
  return std::nullopt;
}

std::optional<Bandwidth> measure_bandwidth(const Plan& plan, const Allowed& allowed,
                                           std::chrono::milliseconds deadline) {
  const std::uint64_t needed = working_set_bytes(plan);
  const std::uint64_t available = available_memory_bytes(SysRoot(), allowed);
  if (needed > available) {
    throw Error(Exit::infeasible,
                format_text("the plan was measured over {} of memory, but {} are available",
                            print_bytes(needed), print_bytes(available)),
                "check again when the node is idle");
  }
  // A quarter of the time is left for the last pass and for freeing the memory.
  const Nanoseconds measure_until_ns = now_ns() + deadline.count() * 1'000'000 * 3 / 4;
  const ChildOutput output = output_of_child([&] { return measured_text(plan, measure_until_ns); }, deadline);
  if (output.end == ChildOutput::End::late) return std::nullopt;
  if (output.end == ChildOutput::End::died) {
    throw Error(Exit::runtime_error, "the process that measures this node died",
                "look in dmesg for the OOM killer");
  }
  if (output.text.starts_with(kError)) throw Error(Exit::runtime_error, output.text.substr(kError.size()));
  Bandwidth now;
  std::istringstream(output.text) >> now.roofline >> now.step;
  return now;
}

std::string spread_warning(const Plan& plan) {
  const bool measured =
      std::any_of(plan.evidence.samples.begin(), plan.evidence.samples.end(), [&](const Sample& sample) {
        return sample.candidate == plan.choice.candidate && sample.times.roofline_ns > 0 &&
               sample.times.step_ns > 0;
      });
  if (!measured || plan.evidence.elements_per_rank == 0) return "";
  const PlannedBandwidth planned = planned_bandwidth(plan);
  if (can_tell(planned)) {
    if (planned.spread.step <= kMostSpread) return "";
    return format_text(
        "the measured optimizer steps spread by {:.0f} %, so zf-tune check --bandwidth compares the roofline "
        "alone; tune again on an idle node",
        100 * planned.spread.step);
  }
  return format_text(
      "the measured bandwidths spread by {:.0f} %, so zf-tune check --bandwidth cannot tell whether a node "
      "is slow by this plan; tune again on an idle node",
      100 * planned.spread.roofline);
}

BandwidthVerdict unmeasured_bandwidth(const std::string& host, const std::string& why) {
  return {.slow = false,
          .known = false,
          .words = format_text("cannot tell whether {} is slow: this process is confined: {}", host, why)};
}

BandwidthVerdict compare_bandwidth(const Plan& plan, const PlannedBandwidth& planned,
                                   const std::optional<Bandwidth>& now, const std::string& host) {
  if (!can_tell(planned)) {
    return {.slow = false,
            .known = false,
            .words = format_text(
                "cannot tell whether {} is slow: spread {:.0f} % of the bandwidths measured on {}, "
                "more than {:.0f} %; tune again on an idle node",
                host, 100 * planned.spread.roofline, plan.made.host, 100 * kMostSpread)};
  }
  if (!now) {
    return {
        true, true,
        format_text(
            "{} is slow: it did not finish one pass over {} in time; on the plan's node a pass took {}", host,
            print_bytes(plan.evidence.working_set_bytes_per_rank * plan.ranks.size()),
            print_duration(static_cast<Nanoseconds>(bytes_per_pass(plan) * 1e9 / planned.median.roofline)))};
  }
  const bool steps_tell = planned.spread.step <= kMostSpread;
  const PlannedBandwidth::Spread least = {.roofline = 1 - std::max(kSlowNode, planned.spread.roofline),
                                          .step = 1 - std::max(kSlowNode, planned.spread.step)};
  const double roofline = now->roofline / planned.median.roofline;
  const double step = now->step / planned.median.step;
  const bool slow = roofline < least.roofline || (steps_tell && step < least.step);
  const std::string of_steps = steps_tell ? format_text("below {:.0f} % is slow", 100 * least.step)
                                          : format_text("not compared: the plan's steps spread by {:.0f} %",
                                                        100 * planned.spread.step);
  return {
      slow, true,
      format_text("{} {}: roofline {}, {:.0f} % of the {} on {} (below {:.0f} % is slow); optimizer step {}, "
                  "{:.0f} % of {}{} ({})",
                  host, slow ? "is slow" : "is as fast as the plan's node", gigabytes(now->roofline),
                  100 * roofline, gigabytes(planned.median.roofline), plan.made.host, 100 * least.roofline,
                  gigabytes(now->step), 100 * step, gigabytes(planned.median.step),
                  planned.loaded ? " beside training" : "", of_steps)};
}

}  // namespace zf
