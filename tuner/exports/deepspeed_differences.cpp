// Says what DeepSpeed does that a plan does not.
// Says what DeepSpeed does beside the plan. Read in version 0.19.8: launcher/launch.py and utils/numa.py
// (threads and memory), launcher/runner.py (GPUs), zenflow_utils.py and superoffload_utils.py (the two
// sides).
#include "exports/deepspeed_settings.hpp"

#include <algorithm>
#include <set>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"

namespace zf {
namespace {

/// Returns how many OpenMP threads the plan gives the process of a rank: those of training if the optimizer's
/// CPUs are taken from it, else one per core of its home.
int planned_threads(const RankBinding& rank, const DeepSpeedOptimizer& optimizer) {
  return optimizer.divides ? rank.training.threads : rank.home.threads;
}

/// The launcher sets OMP_NUM_THREADS to the number of CPUs of a rank.
void add_threads(const Plan& plan, const DeepSpeedOptimizer& optimizer, std::vector<std::string>& notes) {
  const auto all = static_cast<int>(plan.ranks.front().both_sides().size());
  std::set<int> planned;
  for (const RankBinding& rank : plan.ranks) planned.insert(planned_threads(rank, optimizer));
  if (planned == std::set{all}) return;
  const std::string threads = join_text(planned, " or ");
  notes.push_back(format_text(
      "DeepSpeed's launcher sets OMP_NUM_THREADS={}, one thread per CPU of a rank; the plan has {}{}: call "
      "torch.set_num_threads({}) in the script",
      all, threads, optimizer.divides ? " for training" : ", one per core", threads));
}

/// The launcher binds memory with -m to the node of a rank inside one node. If there are as many nodes
/// without CPUs as with, it takes them for HBM, pairs both lists, and prefers the partner with -p. Node
/// numbers that are not below the number of nodes are unknown to it.
void add_memory(const Plan& plan, std::vector<std::string>& notes) {
  const auto with_cpus = static_cast<std::size_t>(plan.machine.numa_nodes);
  const std::size_t nodes = std::max(with_cpus, plan.allocation.mems.size());
  NodeSet inside;
  std::size_t ranks = 0;
  for (const RankBinding& rank : plan.ranks) {
    const OptimizerSide& side = rank.optimizer;
    if (side.memory_policy == MemoryPolicy::none || side.mems.size() != 1 ||
        static_cast<std::size_t>(side.mems.first().os_index) >= nodes)
      continue;
    inside |= side.mems;
    ++ranks;
  }
  if (ranks == 0) return;
  const std::string who = format_text("{} of {}", ranks, print_count(plan.ranks.size(), "rank"));
  const bool bound = plan.ranks.front().optimizer.memory_policy == MemoryPolicy::bind;
  const char* const planned = bound ? "binds it to" : "prefers";
  if (nodes == 2 * with_cpus) {
    notes.push_back(format_text(
        "DeepSpeed's launcher takes the {} without CPUs for HBM and prefers them for the memory of {} "
        "(numactl -p); the plan {} {}",
        print_count(with_cpus, "NUMA node"), who, planned, print_nodes(inside)));
  } else if (!bound) {
    notes.push_back(
        format_text("DeepSpeed's launcher binds the memory of {} to one NUMA node each (numactl -m, {}); the "
                    "plan only prefers it",
                    who, print_nodes(inside)));
  }
}

/// Both optimizers bind with psutil's cpu_affinity(), which is sched_setaffinity() on the main thread.
void add_division(const Plan& plan, const DeepSpeedOptimizer& optimizer, std::vector<std::string>& notes) {
  const RankBinding& rank = plan.ranks.front();
  const std::size_t all = rank.both_sides().size();
  const std::size_t training = rank.training.cpus.size();
  const bool zenflow = optimizer.framework == Framework::deepspeed_zenflow;
  const bool superoffload = optimizer.framework == Framework::superoffload;
  if (!zenflow && !superoffload) return;
  if (zenflow && !optimizer.divides) {
    notes.push_back(
        format_text("ZenFlow without overlap_step steps in the training process, on all {} of a rank: its "
                    "fraction has no effect",
                    print_count(all, "CPU")));
    return;
  }
  const char* const name = zenflow ? "ZenFlow" : "SuperOffload";
  if (rank.shared) {
    if (rank.optimizer.cpus.size() < all) {
      notes.push_back(
          format_text("{}'s optimizer has one thread on each of the {} of a rank; the plan has {}", name,
                      print_count(all, "CPU"), rank.optimizer.cpus.size()));
    }
    return;
  }
  notes.push_back(
      format_text("{} moves only the main thread to the {} for training; "
                  "threads that exist by then keep all {} of the rank",
                  name, print_count(training, "CPU"), all));
  if (superoffload) {
    notes.push_back(
        format_text("SuperOffload's optimizer process inherits OMP_NUM_THREADS={} and has {}: "
                    "more threads than CPUs",
                    all, print_count(all - training, "CPU")));
  }
}

/// --num_gpus N gives rank k the GPU k. Of ranks that share a GPU nothing is said: each part of a GPU is a
/// device of its own there.
void add_gpus(const Plan& plan, std::vector<std::string>& notes) {
  if (plan.intent.gpu_share().gpus_per_rank > 1) {
    notes.push_back(
        format_text("DeepSpeed's launcher gives rank k the GPU k alone, and the plan gives each rank {} "
                    "GPUs: start the job "
                    "with zf-tune exec under another launcher, or set CUDA_VISIBLE_DEVICES in the script",
                    plan.intent.gpu_share().gpus_per_rank));
    return;
  }
  if (plan.intent.gpu_share().is_given()) return;
  std::vector<int> minors;
  for (const RankBinding& rank : plan.ranks) {
    if (!rank.gpu || !rank.gpu->minor) return;
    minors.push_back(*rank.gpu->minor);
  }
  bool same = true;
  for (std::size_t rank = 0; rank < minors.size(); ++rank)
    same = same && minors[rank] == static_cast<int>(rank);
  if (same) return;
  notes.push_back(
      format_text("--num_gpus takes the first {} and ignores CUDA_VISIBLE_DEVICES; the plan is for {}: give "
                  "--include localhost:{} in its place, unless the job sees only these",
                  print_count(minors.size(), "GPU"), join_text(minors, ", "), join_text(minors, ",")));
}

/// ZenFlow takes equal masks of all ranks for an unbound job, and divides them among the ranks of all nodes.
void add_single_rank(const Plan& plan, const DeepSpeedOptimizer& optimizer, std::vector<std::string>& notes) {
  if (plan.ranks.size() > 1 || !optimizer.divides || optimizer.framework == Framework::superoffload) return;
  notes.push_back(
      "the plan has one rank: on several nodes ZenFlow divides these CPUs among the ranks of all nodes");
}

}  // namespace

std::vector<std::string> deepspeed_differences(const Plan& plan, const DeepSpeedOptimizer& optimizer) {
  std::vector<std::string> notes;
  add_threads(plan, optimizer, notes);
  add_memory(plan, notes);
  add_division(plan, optimizer, notes);
  add_single_rank(plan, optimizer, notes);
  add_gpus(plan, notes);
  return notes;
}

}  // namespace zf
