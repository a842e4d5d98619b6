// Checks the invariants of a plan (plan_check.hpp), section by section.
#include "plan/plan_check.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "plan/reserved_perc.hpp"

namespace zf {
namespace {

using Found = std::optional<Violation>;

template <class... Args>
Found violation(std::string field, fmt::format_string<Args...> format, Args&&... args) {
  return Violation{std::move(field), format_text(format, std::forward<Args>(args)...)};
}

/// Returns true if the value is finite and at least `low`.
bool at_least(double value, double low) { return std::isfinite(value) && value >= low; }

bool is_fingerprint(std::string_view text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Returns true if the text has the shape of "2026-11-20T21:00:00Z".
bool is_utc_time(std::string_view text) {
  constexpr std::string_view kShape = "dddd-dd-ddTdd:dd:ddZ";
  return std::equal(text.begin(), text.end(), kShape.begin(), kShape.end(),
                    [](char c, char shape) { return shape == 'd' ? c >= '0' && c <= '9' : c == shape; });
}

Found find_in_machine(const MachineClass& machine) {
  if (!is_fingerprint(machine.fingerprint)) return violation("machine.fingerprint", "is not 16 hex digits");
  if (machine.packages < 0) return violation("machine.packages", "is {}, below 0", machine.packages);
  if (machine.numa_nodes < 0) return violation("machine.numa_nodes", "is {}, below 0", machine.numa_nodes);
  if (machine.cpus.empty()) return violation("machine.cpus", "is empty");
  if (machine.pus != static_cast<int>(machine.cpus.size())) {
    return violation("machine.pus", "is {}, but machine.cpus names {}", machine.pus,
                     print_count(machine.cpus.size(), "CPU"));
  }
  if (machine.cores < 1 || machine.cores > machine.pus) {
    return violation("machine.cores", "is {}, not between 1 and the {}", machine.cores,
                     print_count(machine.cpus.size(), "PU"));
  }
  return std::nullopt;
}

Found find_in_allocation(const Allocation& allocation, const MachineClass& machine) {
  if (!is_fingerprint(allocation.fingerprint))
    return violation("allocation.fingerprint", "is not 16 hex digits");
  if (allocation.cpus.empty()) return violation("allocation.cpus", "is empty");
  if (const CpuSet foreign = allocation.cpus - machine.cpus; !foreign.empty()) {
    return violation("allocation.cpus", "names {}, which machine.cpus does not have", print_cpus(foreign));
  }
  if (allocation.mems.empty()) return violation("allocation.mems", "is empty");
  if (allocation.cpu_quota && !(std::isfinite(*allocation.cpu_quota) && *allocation.cpu_quota > 0)) {
    return violation("allocation.cpu_quota", "is {}, not above 0", *allocation.cpu_quota);
  }
  if (allocation.memory_bytes == 0) return violation("allocation.memory_bytes", "is 0");
  return std::nullopt;
}

Found find_in_workload(const Workload& workload, std::size_t ranks) {
  if (workload.params == 0) return violation("workload.params", "is 0");
  if (workload.ranks < 1 || static_cast<std::size_t>(workload.ranks) != ranks) {
    return violation("workload.ranks", "is {}, but the plan has {}", workload.ranks,
                     print_count(ranks, "rank"));
  }
  if (workload.update_interval < 1) {
    return violation("workload.update_interval", "is {}, below 1", workload.update_interval);
  }
  return std::nullopt;
}

Found find_in_intent(const Intent& intent, const std::vector<RankBinding>& ranks) {
  const auto apart = std::find_if(ranks.begin(), ranks.end(), [](const RankBinding& r) { return !r.shared; });
  if (intent.shared && apart != ranks.end())
    return violation("intent.shared", "is true, but rank {} is not shared", apart->rank);

  if (intent.pool_pus_per_core < 0) {
    return violation("intent.pool_pus_per_core", "is {}, below 0", intent.pool_pus_per_core);
  }
  if (intent.pool_cores < 1) return violation("intent.pool_cores", "is {}, below 1", intent.pool_cores);
  if (!at_least(intent.reserved_fraction, 0) || intent.reserved_fraction > 1) {
    return violation("intent.reserved_fraction", "is {}, not between 0 and 1", intent.reserved_fraction);
  }
  if (!at_least(intent.idle_fraction, 0) || intent.idle_fraction > 1) {
    return violation("intent.idle_fraction", "is {}, not between 0 and 1", intent.idle_fraction);
  }
  if (intent.pool_make.value_or(0) < 0)
    return violation("intent.pool_kind", "is {}, below 0", *intent.pool_make);
  return std::nullopt;
}

/// Checks that the CPUs or nodes of one side are not empty and lie inside those of the allocation.
template <class Set>
Found find_in_part(const Set& part, std::string field, const Set& whole, std::string_view whole_field) {
  if (part.empty()) return violation(std::move(field), "is empty");
  if (const Set outside = part - whole; !outside.empty()) {
    return violation(std::move(field), "names {}, outside {} {}", print(outside), whole_field, print(whole));
  }
  return std::nullopt;
}

Found find_in_counts(const RankBinding& rank, const std::string& path) {
  const int training = static_cast<int>(rank.training.cpus.size());
  const int all = static_cast<int>(rank.both_sides().size());
  if (rank.home.threads < 1 || rank.home.threads > static_cast<int>(rank.home.cpus.size())) {
    return violation(path + ".home.threads", "is {}, not between 1 and the {} of the home", rank.home.threads,
                     print_count(rank.home.cpus.size(), "CPU"));
  }
  if (rank.shared ? rank.pt_reserved_cores != 0
                  : rank.pt_reserved_cores < 1 || rank.pt_reserved_cores > training) {
    return violation(path + ".pt_reserved_cores", "is {}, {}", rank.pt_reserved_cores,
                     rank.shared ? "but no core of a shared rank is training's alone"
                                 : format_text("not between 1 and the {}",
                                               print_count(rank.training.cpus.size(), "training CPU")));
  }
  const int most = rank.shared ? training : rank.pt_reserved_cores;
  if (rank.training.threads < 1 || rank.training.threads > most) {
    return violation(path + ".training.threads", "is {}, not between 1 and {}", rank.training.threads, most);
  }
  const double perc = rank.pt_reserved_cores_perc;
  if (!at_least(perc, 0) || perc > 1 || pus_deepspeed_reserves(perc, all) != training) {
    return violation(path + ".pt_reserved_cores_perc",
                     "is {}, which DeepSpeed does not turn into {} of {} (write {})", perc, training,
                     print_count((rank.training.cpus | rank.optimizer.cpus).size(), "CPU"),
                     reserved_perc(training, all));
  }
  return std::nullopt;
}

Found find_in_rank(const RankBinding& rank, const std::string& path, const Allocation& allocation) {
  const CpuSet& training = rank.training.cpus;
  const CpuSet& optimizer = rank.optimizer.cpus;
  const CpuSet& home = rank.home.cpus;
  const std::pair<const char*, const CpuSet*> parts[] = {
      {".training.cpus", &training}, {".optimizer.cpus", &optimizer}, {".home.cpus", &home}};
  for (const auto& [field, cpus] : parts) {
    if (auto found = find_in_part(*cpus, path + field, allocation.cpus, "allocation.cpus")) return found;
  }
  for (const auto& [field, cpus] : parts) {
    if (auto found = find_in_part(*cpus, path + field, home, "home.cpus")) return found;
  }
  if (auto found =
          find_in_part(rank.optimizer.mems, path + ".optimizer.mems", allocation.mems, "allocation.mems")) {
    return found;
  }
  if (rank.shared && training != home) {
    return violation(path + ".training.cpus", "is {}, but the rank is shared and its home is {}",
                     print(training), print(home));
  }
  if (!rank.shared && training.intersects(optimizer)) {
    return violation(path + ".optimizer.cpus", "overlaps training.cpus on {}", print(training & optimizer));
  }
  return find_in_counts(rank, path);
}

Found find_in_ranks(const Plan& plan) {
  if (plan.ranks.empty()) return violation("ranks", "is empty");
  CpuSet taken;
  for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
    const RankBinding& rank = plan.ranks[i];
    const std::string path = format_text("ranks[{}]", i);
    if (rank.rank < 0 || static_cast<std::size_t>(rank.rank) != i) {
      return violation(path + ".rank", "is {}, but ranks are listed as 0, 1, 2, ...", rank.rank);
    }
    if (auto found = find_in_rank(rank, path, plan.allocation)) return found;
    for (const auto& [side, cpus] :
         {std::pair(".training.cpus", &rank.training.cpus),
          std::pair(".optimizer.cpus", &rank.optimizer.cpus), std::pair(".home.cpus", &rank.home.cpus)}) {
      if (!cpus->intersects(taken)) continue;
      return violation(path + side, "takes {} from an earlier rank", print(*cpus & taken));
    }
    taken |= rank.home.cpus;
  }
  return std::nullopt;
}

Found find_in_choice(const Choice& choice, const Plan& plan) {
  if (choice.reason.empty()) return violation("choice.reason", "is empty");
  if (choice.period_ns_median < 0)
    return violation("choice.period_ns_median", "is {}, below 0", choice.period_ns_median);
  if (choice.headroom) {
    for (const auto& [field, value] : {std::pair("training_speedup", choice.headroom->training_speedup),
                                       std::pair("step_slowdown", choice.headroom->step_slowdown)}) {
      if (!at_least(value, 0))
        return violation(format_text("choice.headroom.{}", field), "is {}, below 0", value);
    }
  }
  std::size_t threads = 0;
  for (const RankBinding& rank : plan.ranks) threads = std::max(threads, rank.optimizer.cpus.size());
  if (choice.pool_threads < 0 || static_cast<std::size_t>(choice.pool_threads) != threads) {
    return violation("choice.pool_threads", "is {}, but the largest optimizer.cpus has {}",
                     choice.pool_threads, print_count(threads, "CPU"));
  }
  return std::nullopt;
}

Found find_in_candidate(const CandidateEvidence& candidate, const std::string& path) {
  const struct {
    const char* field;
    Nanoseconds value;
    Nanoseconds low;
  } whole[] = {{".id", candidate.id, 0},
               {".reserved_cores", candidate.reserved_cores, 0},
               {".pool_cores", candidate.pool_cores, 1},
               {".pool_threads", candidate.pool_threads, 1},
               {".idle_cores", candidate.idle_cores, 0},
               {".pool_kind", candidate.pool_make.value_or(0), 0},
               {".period_ns_median", candidate.period_ns_median, 0},
               {".step_ns_median", candidate.step_ns_median, 0},
               {".training_ns_median", candidate.training_ns_median, 0},
               {".exposed_ns_median", candidate.exposed_ns_median, 0},
               {".launch_delay_p50_ns", candidate.launch_delay_p50_ns, 0},
               {".launch_delay_p99_ns", candidate.launch_delay_p99_ns, 0}};
  for (const auto& [field, value, low] : whole) {
    if (value < low) return violation(path + field, "is {}, below {}", value, low);
  }
  const std::pair<const char*, double> real[] = {{".period_spread", candidate.period_spread},
                                                 {".step_spread", candidate.step_spread},
                                                 {".training_spread", candidate.training_spread},
                                                 {".roofline_ratio", candidate.roofline_ratio}};
  for (const auto& [field, value] : real) {
    if (!at_least(value, 0)) return violation(path + field, "is {}, below 0", value);
  }
  return std::nullopt;
}

Found find_in_sample(const Sample& sample, const std::set<int>& known, std::size_t index) {
  const auto path = [&](const char* field) { return format_text("evidence.samples[{}].{}", index, field); };
  if (!known.contains(sample.candidate)) {
    return violation(path("candidate"), "is {}, which evidence.candidates does not have", sample.candidate);
  }
  if (sample.round < 0) return violation(path("round"), "is {}, below 0", sample.round);
  const SplitSample& times = sample.times;
  const std::pair<const char*, Nanoseconds> whole[] = {{"step_ns", times.step_ns},
                                                       {"roofline_ns", times.roofline_ns},
                                                       {"training_ns", times.training_ns},
                                                       {"launch_delay_p50_ns", times.launch_delay_p50_ns},
                                                       {"launch_delay_p99_ns", times.launch_delay_p99_ns}};
  for (const auto& [field, value] : whole) {
    if (value < 0) return violation(path(field), "is {}, below 0", value);
  }
  return std::nullopt;
}

Found find_in_evidence(const Evidence& evidence, const Choice& choice) {
  if (!at_least(evidence.roofline.bytes_per_s_median, 0)) {
    return violation("evidence.roofline.bytes_per_s_median", "is {}, below 0",
                     evidence.roofline.bytes_per_s_median);
  }
  if (evidence.roofline.threads < 0)
    return violation("evidence.roofline.threads", "is {}, below 0", evidence.roofline.threads);
  if (!at_least(evidence.scale, 0) || evidence.scale > 1)
    return violation("evidence.scale", "is {}, not between 0 and 1", evidence.scale);
  const std::pair<const char*, double> relative[] = {
      {"evidence.noise_floor", evidence.noise_floor},
      {"evidence.accuracy_wanted", evidence.accuracy_wanted},
      {"evidence.accuracy_reached", evidence.accuracy_reached}};
  for (const auto& [field, value] : relative) {
    if (!at_least(value, 0)) return violation(field, "is {}, below 0", value);
  }
  std::set<int> known;
  for (std::size_t i = 0; i < evidence.candidates.size(); ++i) {
    const CandidateEvidence& candidate = evidence.candidates[i];
    const std::string path = format_text("evidence.candidates[{}]", i);
    if (auto found = find_in_candidate(candidate, path)) return found;
    if (!known.insert(candidate.id).second)
      return violation(path + ".id", "is {}, which an earlier candidate has too", candidate.id);
    if (candidate.id == choice.candidate && candidate.control == Control::unbound)
      return violation("choice.candidate", "is {}, the unbound control, which is not a split", candidate.id);
  }
  if (choice.candidate != -1 && !known.contains(choice.candidate)) {
    return violation("choice.candidate", "is {}, which evidence.candidates does not have", choice.candidate);
  }
  for (std::size_t i = 0; i < evidence.samples.size(); ++i) {
    if (auto found = find_in_sample(evidence.samples[i], known, i)) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Violation> find_violation(const Plan& plan) {
  if (!is_utc_time(plan.made.at)) return violation("made.at", "is not a UTC time like 2026-11-20T21:00:00Z");
  if (auto found = find_in_machine(plan.machine)) return found;
  if (auto found = find_in_allocation(plan.allocation, plan.machine)) return found;
  if (auto found = find_in_ranks(plan)) return found;
  if (auto found = find_in_workload(plan.workload, plan.ranks.size())) return found;
  if (auto found = find_in_intent(plan.intent, plan.ranks)) return found;
  if (auto found = find_in_choice(plan.choice, plan)) return found;
  return find_in_evidence(plan.evidence, plan.choice);
}

}  // namespace zf
