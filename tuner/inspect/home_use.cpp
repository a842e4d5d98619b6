#include "inspect/home_use.hpp"

#include <algorithm>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "plan/plan_check.hpp"
#include "plan/plan_json.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

const CpuSet& main_mask(const JobProcess& member) { return member.process.threads.front().cpus; }

/// Returns true if the mask is a part of the home, but not all of it.
bool is_part(const CpuSet& mask, const CpuSet& home) { return mask != home && home.contains(mask); }

/// Returns true if the framework divides the mask of its process by itself.
bool divides(Framework framework) {
  return framework == Framework::deepspeed_zenflow || framework == Framework::superoffload;
}

/// Returns the process that is the parent of `child`; null if it is not among them.
const BoundProcess* parent_of(const BoundProcess& child, const std::vector<BoundProcess>& processes) {
  for (const BoundProcess& other : processes) {
    if (other.process->process.pid == child.process->process.parent && other.process != child.process &&
        other.process->rank == child.process->rank && other.binding == child.binding)
      return &other;
  }
  return nullptr;
}

}  // namespace

std::vector<RankProcesses> ranks_of(const std::vector<BoundProcess>& processes) {
  std::vector<RankProcesses> ranks;
  std::vector<const BoundProcess*> first;  // of each group
  for (const BoundProcess& one : processes) {
    const BoundProcess* oldest = &one;
    // A chain of parents has at most as many links as there are processes. (Files of another machine may hold
    // a circle.)
    for (std::size_t i = 0; i < processes.size(); ++i) {
      const BoundProcess* parent = parent_of(*oldest, processes);
      if (parent == nullptr) break;
      oldest = parent;
    }
    const auto known =
        static_cast<std::size_t>(std::find(first.begin(), first.end(), oldest) - first.begin());
    if (known == first.size()) {
      first.push_back(oldest);
      ranks.push_back({oldest->binding, {oldest->process}});
    }
    RankProcesses& rank = ranks[known];
    if (oldest != &one) rank.members.push_back(one.process);
  }
  return ranks;
}

ProcessBinding planned_binding(const Plan& plan, int rank) {
  ProcessBinding binding;
  binding.rank = binding_of(plan, rank);
  binding.rank.gpu.reset();
  binding.rank.more_gpus.clear();
  binding.rank.spread_gpu.reset();
  binding.framework = plan.workload.framework;
  binding.started_on = process_cpus(binding.rank, binding.framework).started_on;
  return binding;
}

ProcessBinding binding_in_force(const JobProcess& process) {
  if (!process.binding_fault.empty()) throw Error(Exit::usage, process.binding_fault);
  if (process.binding) return *process.binding;
  return planned_binding(load_plan(process.plan.empty() ? "plan.json" : process.plan), process.rank);
}

bool is_confined_to_training(const ProcessBinding& binding) {
  return binding.started_on == StartedOn::training && !binding.rank.shared;
}

CpuSet cpus_of_threads(const ProcessState& process) {
  CpuSet cpus;
  for (const ThreadState& thread : process.threads) cpus |= thread.cpus;
  return cpus;
}

HomeUse home_use(const RankProcesses& rank) {
  const CpuSet& home = rank.binding.rank.home.cpus;
  const CpuSet& training = rank.binding.rank.training.cpus;
  HomeUse use;
  for (const JobProcess* member : rank.members) {
    use.has_optimizer = use.has_optimizer || member->side == Side::optimizer;
    use.used |= cpus_of_threads(member->process);
  }
  use.unused = home - use.used;
  if (is_confined_to_training(rank.binding)) return use;

  const auto name = [&](const JobProcess* member) {
    const bool known = std::find(use.divided.begin(), use.divided.end(), member) != use.divided.end();
    if (!known && main_mask(*member) != training) use.divided.push_back(member);
  };
  for (const JobProcess* child : rank.members) {
    for (const JobProcess* parent : rank.members) {
      if (child->side == Side::optimizer || parent == child || child->process.parent != parent->process.pid ||
          !is_part(main_mask(*child), home) || !is_part(main_mask(*parent), home) ||
          main_mask(*child) == main_mask(*parent))
        continue;
      if (main_mask(*parent) == training && use.has_optimizer) continue;
      name(parent);
      name(child);
    }
  }
  if (divides(rank.binding.framework) && use.unused.empty() && home.contains(use.used)) {
    use.by_plan = true;
    use.divided.clear();
  }
  return use;
}

std::string division_in_words(const JobProcess& process, const ProcessBinding& binding, const HomeUse& use) {
  std::string text =
      format_text("may run on {} only: a framework has divided the home {} again, as ZenFlow does",
                  print(main_mask(process)), print(binding.rank.home.cpus));
  if (!use.unused.empty()) {
    text += format_text(", and no thread may use {} of it ({})", print_count(use.unused.size(), "CPU"),
                        print(use.unused));
  }
  return text;
}

}  // namespace zf
