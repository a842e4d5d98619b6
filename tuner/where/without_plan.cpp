#include <algorithm>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "gpus/rank_gpus.hpp"
#include "machine/rank_count.hpp"
#include "planning/unmeasured_plan.hpp"
#include "text/command_line.hpp"
#include "where/asker.hpp"
#include "where/process_gpus.hpp"

namespace zf {
namespace {

/// Returns a plan for `ranks` ranks; without a number, for one rank on each GPU.
Plan plan_for(const Machine& machine, const Environment& environment, std::optional<int> ranks) {
  const int count = rank_count_of(ranks, environment, machine.topology).count;
  Workload workload{"params", 1'000'000'000, count, 1};
  workload.mode = kDefaultMode;
  return unmeasured_plan(machine, rank_gpus(environment, machine.topology, count), workload, false,
                         command_line());
}

Where made_for(const Asker& asker, const Plan& plan, std::string words, int rank, std::string source) {
  const int ranks = static_cast<int>(plan.ranks.size());
  return {launch_by(asker, plan, words, rank, ranks, without_lists(asker.environment)), std::move(source),
          std::move(words)};
}

/// Takes part `rank` of `ranks` of what `machine` allows. `where`: " on the CPUs of …", or empty.
Where by_number(const Asker& asker, const Machine& machine, const Environment& environment,
                std::optional<int> rank, std::optional<int> ranks, const std::string& where = "") {
  if (!rank) refuse("nothing says which rank this process is: give rank= and ranks=, or name a plan");
  if (!ranks) refuse(format_text("it is rank {}, but nothing says of how many: give ranks=", *rank));
  return made_for(asker, plan_for(machine, environment, ranks),
                  format_text("a plan for {}{}", print_count(*ranks, "rank"), where), *rank, "");
}

Where by_number(const Asker& asker, const std::string& note = "") {
  Where where = by_number(asker, asker.machine, without_lists(asker.environment), asker.request.rank,
                          asker.request.ranks);
  if (!note.empty()) where.launch.notes.insert(where.launch.notes.begin(), note);
  return where;
}

/// Takes the CPUs that `plan`, made for all GPUs of the node, gives to the GPUs of this process. If several
/// ranks share these GPUs, they divide the CPUs by their numbers; otherwise this process gets them all.
Where by_part(const Asker& asker, const ProcessGpus& gpus, const Plan& plan) {
  const std::set<std::string> mine(gpus.pci.begin(), gpus.pci.end());  // MIG instances may be of one
  const std::string named = format_text("GPU{} {}", mine.size() == 1 ? "" : "s", join_text(mine, ", "));
  const auto rank = gpus.are_shared ? asker.request.rank : 0;
  const auto ranks = gpus.are_shared ? asker.request.ranks : 1;
  CpuSet part;
  std::size_t homes = 0;
  for (const RankBinding& binding : plan.ranks) {
    if (!binding.gpu || !mine.contains(binding.gpu->pci_address)) continue;
    part |= binding.home.cpus;
    ++homes;
  }
  Where where;
  try {
    Machine machine = asker.machine;
    const bool are_all = homes == plan.ranks.size();
    if (!are_all) machine = read_with_gpus(asker.environment, part);
    where = by_number(asker, machine, asker.environment, rank, ranks,
                      are_all ? "" : format_text(" on the CPUs of {}", named));
  } catch (const Error& error) {  // they have too few cores: all ranks get the same answer
    if (error.exit() != Exit::infeasible || !gpus.are_shared) throw;
    return by_number(asker, format_text("the ranks divide the whole node, as they cannot divide {} of {}: {}",
                                        print_cpus(part), named, error.cause()));
  }
  if (!gpus.are_shared) where.source = named;
  return where;
}

}  // namespace

Where without_plan(const Asker& asker) {
  const WhereRequest& request = asker.request;
  ProcessGpus gpus = process_gpus(request, asker.machine, asker.environment, asker.with_ranks);
  if (gpus.pci.empty() && request.ranks && gpus.why_unknown.empty()) return by_number(asker, gpus.note);
  Machine all = asker.machine;  // GPUs that are hidden from this process count: others may have them
  for (Gpu& gpu : all.topology.gpus) gpu.usable = gpu.usable || is_hidden_by_node(gpu);
  const Plan plan = plan_for(all, without_lists(asker.environment), std::nullopt);
  if (const auto hidden = hidden_gpu(asker.machine)) {
    if (request.ranks.value_or(1) > 1)
      return by_number(asker, *hidden + ": the ranks divide the whole node by their numbers");
    refuse(format_text("{}: name a plan for all (plan=)", *hidden));
  }
  std::vector<std::string> of_plan;
  for (const RankBinding& rank : plan.ranks) {
    if (rank.gpu) of_plan.push_back(rank.gpu->pci_address);
  }
  if (of_plan.empty()) return by_number(asker, gpus.note);
  if (!gpus.why_unknown.empty()) refuse(gpus.why_unknown);
  if (gpus.pci.empty() && request.rank) {  // of an unknown number of ranks
    const auto& found = rank_gpus(asker.environment, asker.machine.topology, *request.rank + 1).gpus.back();
    if (found) gpus.pci = {found->pci_address};
  }
  if (gpus.pci.empty()) {
    refuse(format_text("{}, this node has {}, and nothing says which {}: give rank= and ranks=",
                       gpus.why_none, of_plan.size(), request.rank ? "GPU of them it has" : "rank it is"));
  }
  const bool are_distinct = std::set(gpus.pci.begin(), gpus.pci.end()).size() == gpus.pci.size();
  if (gpus.are_shared && request.rank && are_distinct && std::cmp_equal(*request.ranks, gpus.pci.size())) {
    gpus.pci = {gpus.pci[static_cast<std::size_t>(*request.rank)]};
  } else if (gpus.are_shared || gpus.pci.size() > 1) {
    return by_part(asker, gpus, plan);
  }
  const auto at = std::ranges::find(of_plan, gpus.pci.front());
  if (at == of_plan.end())
    refuse(format_text("GPU {} has no home in a plan for all GPUs: give rank= and a plan", gpus.pci.front()));
  return made_for(asker, plan,
                  of_plan.size() == 1 ? "a plan for the GPU of this node"
                                      : format_text("a plan for all {} GPUs of this node", of_plan.size()),
                  static_cast<int>(at - of_plan.begin()), "GPU " + *at);
}

}  // namespace zf
