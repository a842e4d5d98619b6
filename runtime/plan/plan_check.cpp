// Checks the invariants of a plan (plan_check.hpp): first each field by its rule, then what ties fields
// together, section by section.
#include "plan/plan_check.hpp"

#include <algorithm>
#include <set>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "plan/field_check.hpp"
#include "plan/plan_fields.hpp"
#include "plan/reserved_perc.hpp"

namespace zf {
namespace {

using Found = std::optional<Violation>;

template <class... Args>
Found violation(std::string field, fmt::format_string<Args...> format, Args&&... args) {
  return Violation{std::move(field), format_text(format, std::forward<Args>(args)...)};
}

Found find_in_machine(const MachineClass& machine) {
  if (machine.pus != static_cast<int>(machine.cpus.size())) {
    return violation("machine.pus", "is {}, but machine.cpus names {}", machine.pus,
                     print_count(machine.cpus.size(), "CPU"));
  }
  if (machine.cores > machine.pus) {
    return violation("machine.cores", "is {}, not between 1 and the {}", machine.cores,
                     print_count(machine.cpus.size(), "PU"));
  }
  return std::nullopt;
}

Found find_in_allocation(const Allocation& allocation, const MachineClass& machine) {
  if (const CpuSet foreign = allocation.cpus - machine.cpus; !foreign.empty()) {
    return violation("allocation.cpus", "names {}, which machine.cpus does not have", print_cpus(foreign));
  }
  return std::nullopt;
}

Found find_in_workload(const Workload& workload, std::size_t ranks) {
  if (static_cast<std::size_t>(workload.ranks) != ranks) {
    return violation("workload.ranks", "is {}, but the plan has {}", workload.ranks,
                     print_count(ranks, "rank"));
  }
  return std::nullopt;
}

Found find_in_intent(const Intent& intent, const std::vector<RankBinding>& ranks) {
  const auto apart = std::find_if(ranks.begin(), ranks.end(), [](const RankBinding& r) { return !r.shared; });
  if (intent.shared && apart != ranks.end())
    return violation("intent.shared", "is true, but rank {} is not shared", apart->rank);
  if (intent.gpus_per_rank != 0 && intent.ranks_per_gpu != 0)
    return violation("intent.ranks_per_gpu", "stands beside gpus_per_rank, and only one of the two can be");
  const auto more = static_cast<std::size_t>(intent.gpu_share().gpus_of_rank() - 1);
  for (const RankBinding& rank : ranks) {
    if (rank.more_gpus.empty() || (rank.gpu && rank.more_gpus.size() == more)) continue;
    return violation(format_text("ranks[{}].more_gpus", rank.rank),
                     "has {}, but gpu and intent.gpus_per_rank make it {}",
                     print_count(rank.more_gpus.size(), "GPU"), rank.gpu ? more : 0);
  }
  return std::nullopt;
}

/// Checks that the CPUs or nodes of one side lie inside those of the allocation or the home.
template <class Set>
Found find_in_part(const Set& part, std::string field, const Set& whole, std::string_view whole_field) {
  if (const Set outside = part - whole; !outside.empty()) {
    return violation(std::move(field), "names {}, outside {} {}", print(outside), whole_field, print(whole));
  }
  return std::nullopt;
}

Found find_in_counts(const RankBinding& rank, const std::string& path) {
  const int training = static_cast<int>(rank.training.cpus.size());
  const int all = static_cast<int>(rank.both_sides().size());
  if (rank.home.threads > static_cast<int>(rank.home.cpus.size())) {
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
  if (rank.training.threads > most) {
    return violation(path + ".training.threads", "is {}, not between 1 and {}", rank.training.threads, most);
  }
  const double perc = rank.pt_reserved_cores_perc;
  if (!(perc >= 0 && perc <= 1) || pus_deepspeed_reserves(perc, all) != training) {
    return violation(path + ".pt_reserved_cores_perc",
                     "is {}, which DeepSpeed does not turn into {} of {} (write {})", perc, training,
                     print_count((rank.training.cpus | rank.optimizer.cpus).size(), "CPU"),
                     reserved_perc(training, all));
  }
  return std::nullopt;
}

/// Checks the pool of a rank with CPUs that neighbours share, or do not share.
Found find_in_pool(const RankBinding& rank, const std::string& path, bool shared_cpus) {
  const OptimizerSide& pool = rank.optimizer;
  if (pool.threads.has_value() != shared_cpus) {
    return violation(path + ".optimizer.threads", "is {}, but allocation.shared_cpus is {}",
                     pool.threads ? "there" : "missing", shared_cpus);
  }
  if (!shared_cpus) return std::nullopt;
  if (const auto cpus = static_cast<int>(pool.cpus.size()); *pool.threads > cpus)
    return violation(path + ".optimizer.threads", "is {}, not between 1 and {}", *pool.threads, cpus);
  for (const auto& [side, cpus] : {std::pair(".training.cpus", &rank.training.cpus),
                                   std::pair(".optimizer.cpus", &rank.optimizer.cpus)}) {
    if (*cpus == rank.home.cpus) continue;
    return violation(path + side, "is {}, but both sides of shared CPUs have the whole home, {}",
                     print(*cpus), print(rank.home.cpus));
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
  if (auto found = find_in_pool(rank, path, allocation.shared_cpus)) return found;
  if (!rank.shared && !allocation.shared_cpus && training.intersects(optimizer)) {
    return violation(path + ".optimizer.cpus", "overlaps training.cpus on {}", print(training & optimizer));
  }
  return find_in_counts(rank, path);
}

Found find_in_ranks(const Plan& plan) {
  CpuSet taken;
  for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
    const RankBinding& rank = plan.ranks[i];
    const std::string path = format_text("ranks[{}]", i);
    if (static_cast<std::size_t>(rank.rank) != i) {
      return violation(path + ".rank", "is {}, but ranks are listed as 0, 1, 2, ...", rank.rank);
    }
    if (auto found = find_in_rank(rank, path, plan.allocation)) return found;
    if (plan.allocation.shared_cpus) continue;  // homes may overlap
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
  int threads = 0;
  for (const RankBinding& rank : plan.ranks) threads = std::max(threads, pool_threads(rank.optimizer));
  if (choice.pool_threads != threads) {
    return plan.allocation.shared_cpus
               ? violation("choice.pool_threads", "is {}, but the largest optimizer.threads is {}",
                           choice.pool_threads, threads)
               : violation("choice.pool_threads", "is {}, but the largest optimizer.cpus has {}",
                           choice.pool_threads, print_count(threads, "CPU"));
  }
  return std::nullopt;
}

Found find_in_evidence(const Evidence& evidence, const Choice& choice) {
  std::set<int> known;
  for (std::size_t i = 0; i < evidence.candidates.size(); ++i) {
    const CandidateEvidence& candidate = evidence.candidates[i];
    const std::string path = format_text("evidence.candidates[{}]", i);
    if (!known.insert(candidate.id).second)
      return violation(path + ".id", "is {}, which an earlier candidate has too", candidate.id);
    if (candidate.id == choice.candidate && candidate.control == Control::unbound)
      return violation("choice.candidate", "is {}, the unbound control, which is not a split", candidate.id);
  }
  if (choice.candidate != -1 && !known.contains(choice.candidate)) {
    return violation("choice.candidate", "is {}, which evidence.candidates does not have", choice.candidate);
  }
  for (std::size_t i = 0; i < evidence.samples.size(); ++i) {
    const int candidate = evidence.samples[i].candidate;
    if (!known.contains(candidate))
      return violation(format_text("evidence.samples[{}].candidate", i),
                       "is {}, which evidence.candidates does not have", candidate);
  }
  return std::nullopt;
}

Found find_in_trial(const Trial& trial) {
  const auto winner = static_cast<std::size_t>(trial.winner);
  if (winner >= trial.candidates.size())
    return violation("trial.winner", "is {}, not between 0 and {}", winner, trial.candidates.size() - 1);
  if (trial.candidates[winner].control == Control::unbound)
    return violation("trial.winner", "is the unbound control, which is not a split");
  return std::nullopt;
}

}  // namespace

std::optional<Violation> find_violation(const Plan& plan) {
  if (auto found = check_fields(plan)) return found;
  if (auto found = find_in_machine(plan.machine)) return found;
  if (auto found = find_in_allocation(plan.allocation, plan.machine)) return found;
  if (auto found = find_in_ranks(plan)) return found;
  if (auto found = find_in_workload(plan.workload, plan.ranks.size())) return found;
  if (auto found = find_in_intent(plan.intent, plan.ranks)) return found;
  if (auto found = find_in_choice(plan.choice, plan)) return found;
  if (auto found = find_in_evidence(plan.evidence, plan.choice)) return found;
  return plan.trial ? find_in_trial(*plan.trial) : std::nullopt;
}

}  // namespace zf
