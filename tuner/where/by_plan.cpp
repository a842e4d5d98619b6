#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "planning/node_facts.hpp"
#include "planning/retarget.hpp"
#include "where/asker.hpp"
#include "where/process_gpus.hpp"

namespace zf {
namespace {

/// Returns the ranks to which the plan gives this GPU.
std::vector<int> ranks_of(const std::string& pci, const Plan& plan) {
  std::vector<int> ranks;
  for (const RankBinding& rank : plan.ranks) {
    if (rank.gpu && rank.gpu->pci_address == pci) ranks.push_back(rank.rank);
  }
  return ranks;
}

/// Returns the addresses of all GPUs of the plan.
std::set<std::string> gpus_in(const Plan& plan) {
  std::set<std::string> found;
  for (const RankBinding& rank : plan.ranks) {
    for (const RankGpu& gpu : gpus_of(rank)) found.insert(gpu.pci_address);
  }
  return found;
}

/// Throws Error if this process has another GPU than the only rank of the plan: another process may be that.
void need_no_other_gpu(const Asker& asker, const std::string& path, const Plan& plan,
                       const ProcessGpus& gpus) {
  if (!gpus.why_unknown.empty()) refuse(gpus.why_unknown);
  if (gpus.pci.empty()) return;
  const std::set<std::string> of_rank = gpus_in(plan);
  const std::set<std::string> mine(gpus.pci.begin(), gpus.pci.end());
  const bool has_one =
      std::ranges::any_of(mine, [&](const std::string& pci) { return of_rank.contains(pci); });
  if (!of_rank.empty() && !has_one) {
    refuse(
        format_text("the only rank of {} has GPU {}, and this process has {}: give rank=, or make a plan for "
                    "all GPUs",
                    path, join_text(of_rank, ", "), join_text(mine, ", ")));
  }
  if (of_rank.empty() && asker.machine.topology.gpus.size() > mine.size()) {
    refuse(
        format_text("the only rank of {} has no GPU, this process has {}, and others may have the others of "
                    "this node: give rank=, or make a plan for all GPUs",
                    path, join_text(mine, ", ")));
  }
}

/// Returns the rank to which the plan gives the GPU of a process that has a number: each of several jobs has
/// a rank 0. Nothing if its number counts: the plan names no GPUs, more ranks run than it has, the user has
/// named the rank of as many, or nothing says which GPUs the job has. Throws Error if fewer ranks run than
/// the plan has, and another job may have the others of its GPUs.
std::optional<int> rank_of_own_gpu(const Asker& asker, const std::string& path, const Plan& plan,
                                   const ProcessGpus& gpus) {
  const WhereRequest& request = asker.request;
  const int ranks = static_cast<int>(plan.ranks.size());
  const std::set<std::string> of_plan = gpus_in(plan);
  if (of_plan.empty() || request.ranks.value_or(0) > ranks) return std::nullopt;
  if (request.is_users_rank && request.ranks.value_or(ranks) == ranks) return std::nullopt;
  const bool are_all = request.ranks == ranks && ranks > 1;
  const std::set<std::string> mine =
      are_all && gpus.by_device_nodes ? std::set<std::string>() : std::set(gpus.pci.begin(), gpus.pci.end());
  if (mine.size() == 1 && !gpus.are_shared) {
    if (const auto found = ranks_of(*mine.begin(), plan); found.size() == 1) return found.front();
  }
  if (!gpus.why_unknown.empty()) refuse(gpus.why_unknown);
  if (!mine.empty() && request.ranks && !are_all && !std::ranges::includes(mine, of_plan)) {
    refuse(format_text(
        "{} is for {} with GPU {}, and this job has {}, so others may have the others: give rank= "
        "and ranks= as the plan has them, or make a plan for these",
        path, print_count(ranks, "rank"), join_text(of_plan, ", "), join_text(mine, ", ")));
  }
  return std::nullopt;
}

}  // namespace

Where by_plan(const Asker& asker, const std::string& path, const Plan& written) {
  Plan plan = written;
  try {
    const Machine node = read_machine(source_of_files());
    need_class_of(written, node.topology);
    plan = with_facts_of_node(written, node);
  } catch (const Error&) {  // resolve_launch() says why
  }
  const ProcessGpus gpus = process_gpus(asker.request, asker.machine, asker.environment, asker.with_ranks);
  std::optional<int> rank = asker.request.rank;
  std::optional<int> ranks = asker.request.ranks;
  std::string source;
  if (!rank && plan.ranks.size() == 1) {
    need_no_other_gpu(asker, path, plan, gpus);
    rank = 0;
    source = "the only rank of the plan";
  } else if (const auto by_gpu = rank ? rank_of_own_gpu(asker, path, plan, gpus) : std::nullopt) {
    rank = by_gpu;
    source = "its GPU";
    ranks = static_cast<int>(plan.ranks.size());
  }
  if (!rank) {
    const std::string why =
        format_text("nothing says which of the plan's {} ranks this process is", plan.ranks.size());
    if (gpus.pci.size() != 1 || gpus.are_shared)
      refuse(format_text("{}, and {}: give rank=", why, gpus.why_none));
    const auto found = ranks_of(gpus.pci.front(), plan);
    if (found.size() != 1)
      refuse(format_text("{}, and it does not say which rank has GPU {}: give rank=", why, gpus.pci.front()));
    rank = found.front();
    source = "GPU " + gpus.pci.front();
  }
  // A list of one process is not to be compared with the plan's GPUs.
  const bool has_own_list = asker.request.list_of || gpus.pci.size() == 1;
  return {launch_by(asker, written, path, *rank, ranks,
                    has_own_list ? without_lists(asker.environment) : asker.environment),
          source, path, true};
}

}  // namespace zf
