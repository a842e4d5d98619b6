#include "where/process_gpus.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "gpus/gpu_lists.hpp"
#include "gpus/rank_gpus.hpp"
#include "inspect/processes.hpp"
#include "launchers/local_rank.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

constexpr std::array kLists = {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"};

/// Returns "CUDA_VISIBLE_DEVICES=0,1", with all lists that are set; empty if none is.
std::string lists_in(const Environment& environment) {
  std::vector<std::string> set;
  for (const char* const name : kLists) {
    if (const auto value = environment.get(name)) set.push_back(format_text("{}={}", name, *value));
  }
  return set.empty() ? "" : enumerated(set);
}

/// Returns the lists that the launcher of a process was started with. The launcher is its first ancestor that
/// is not of the same rank. Empty if it is another user's, as Slurm's is.
std::string lists_of_launcher(int pid, const Environment& environment) {
  const SysRoot sysroot;
  std::string rank;
  try {
    rank = launchers_rank(environment);
  } catch (const Error&) {  // malformed: the caller has said the rank
  }
  const auto is_same_rank = [&](const Environment& other) {
    try {
      return !rank.empty() && launchers_rank(other) == rank;
    } catch (const Error&) {
      return false;
    }
  };
  while (const auto process = read_process(sysroot, pid)) {
    pid = process->parent;
    const auto above = environment_of(sysroot, pid);
    if (!above) return "";
    if (!is_same_rank(*above)) return lists_in(*above);
  }
  return "";
}

/// Returns the addresses of as many GPUs as a list names.
std::vector<std::string> addresses_of(const VisibleDevices& list, const Machine& machine,
                                      const Environment& environment) {
  std::vector<std::string> found;
  const RankGpus gpus = rank_gpus(environment, machine.topology, static_cast<int>(list.ids.size()));
  for (std::size_t i = 0; i < list.ids.size(); ++i) {
    if (!gpus.gpus[i]) {
      throw Error(Exit::infeasible,
                  format_text("{}: GPU {} cannot be found among the GPUs of this node: give rank= and a plan",
                              list.variable, list.ids[i]));
    }
    found.push_back(gpus.gpus[i]->pci_address);
  }
  return found;
}

/// Returns the GPUs that device nodes leave to this process, or to all ranks of its job: a pod has its GPUs
/// without a list. None if nothing is hidden, or if the job has CPUs of its own as well: then those are for
/// all its ranks.
std::vector<std::string> left_by_device_nodes(const WhereRequest& request, const Machine& machine) {
  std::vector<std::string> left;
  const auto& gpus = machine.topology.gpus;
  for (const Gpu& gpu : gpus) {
    if (gpu.usable) left.push_back(gpu.pci_address);
  }
  if (left.empty() || left.size() == gpus.size() || machine.allowed.cpus != machine.topology.cpus) return {};
  const auto hidden = hidden_gpu(machine);
  if (!hidden) return left;
  if (request.ranks.value_or(1) > 1) return {};
  throw Error(Exit::infeasible, format_text("{}: name a plan for all (plan=)", *hidden));
}

/// Returns the only GPU that this process may use, if nothing says which rank it is.
std::vector<std::string> usable_alone(const WhereRequest& request, const Machine& machine) {
  const auto usable = usable_gpus(machine.topology);
  if (request.rank || usable.size() != 1) return {};
  if (const auto hidden = hidden_gpu(machine))
    throw Error(Exit::infeasible, format_text("{}: name a plan for all (plan=)", *hidden));
  return {usable.front().pci_address};
}

bool is_instance(const std::string& id) { return id.starts_with("MIG-"); }

ProcessGpus by_number(ProcessGpus gpus, std::string why) {
  gpus.note = format_text("{}: the ranks divide the whole node by their numbers", why);
  gpus.why_none = std::move(why);
  return gpus;
}

/// Returns the GPUs of a list.
ProcessGpus of_list(const WhereRequest& request, const VisibleDevices& list, const Machine& machine,
                    const Environment& environment, const Environment& with_ranks) {
  ProcessGpus gpus;
  gpus.said = lists_in(environment);
  const auto ranks = static_cast<std::size_t>(request.ranks.value_or(1));
  const std::size_t count = list.ids.size();
  const bool is_own = request.list_of == ListOf::process;
  const bool has_instance = std::ranges::any_of(list.ids, is_instance);
  if (is_own && has_instance) {
    gpus.why_none = "Ray has given this worker a part of a GPU";
    return gpus;
  }
  if (count == 0 || (!is_own && !request.ranks && count > 1)) {
    gpus.why_none = format_text("{} lists {}", list.variable, print_count(count, "GPU"));
    return gpus;
  }
  gpus.why_none = "this node has no GPU";
  if (machine.topology.gpus.empty()) return gpus;
  gpus.are_shared =
      !is_own && ranks > 1 && (count >= ranks || lists_of_launcher(::getppid(), with_ranks) == gpus.said);
  if (!is_own && !gpus.are_shared && has_instance) {
    if (ranks > 1) return by_number(gpus, gpus.said + ", and several MIG instances may be of one GPU");
    gpus.why_none = gpus.said + ", and other processes may have other MIG instances of that GPU";
    gpus.why_unknown = gpus.why_none + ", and with them its home: name a plan for all (plan=)";
    return gpus;
  }
  if (!is_own && count < ranks && slurm_gpus(environment) && parse_number<std::size_t>(list.ids.front()))
    return by_number(gpus, format_text("Slurm may count the GPUs of each task from 0 ({})", gpus.said));
  gpus.pci = addresses_of(list, machine, environment);
  return gpus;
}

}  // namespace

std::optional<std::string> hidden_gpu(const Machine& machine) {
  for (const Gpu& gpu : machine.topology.gpus) {
    if (gpu.usable || is_hidden_by_node(gpu)) continue;
    return format_text(
        "GPU {} of this node is not for this process ({}), and may be another's, with CPUs that "
        "are not known",
        gpu.pci_address, gpu.why_unusable);
  }
  return std::nullopt;
}

bool is_hidden_by_node(const Gpu& gpu) { return !gpu.usable && gpu.why_unusable.starts_with("/dev/"); }

ProcessGpus process_gpus(const WhereRequest& request, const Machine& machine, const Environment& environment,
                         const Environment& with_ranks) {
  ProcessGpus gpus;
  if (request.list_of == ListOf::others || request.list_of == ListOf::nothing) {
    gpus.why_none = "this process has no GPU of its own";
    if (request.list_of == ListOf::others) {
      gpus.why_none = "Ray has given this worker no whole GPU";
      gpus.why_unknown = gpus.why_none +
                         ", and other workers here may have GPUs, and with them their homes: name a plan for "
                         "all workers (plan=), or give all of them GPUs";
    }
    return gpus;
  }
  if (const auto list = visible_devices(environment, runtime_of(machine.topology)))
    return of_list(request, *list, machine, environment, with_ranks);
  gpus.why_none = "no variable says which GPU this process has";
  if (request.mask_of == MaskOf::job) return gpus;
  gpus.pci = request.ranks ? left_by_device_nodes(request, machine) : usable_alone(request, machine);
  gpus.by_device_nodes = !gpus.pci.empty();
  gpus.are_shared = request.ranks.value_or(1) > 1;
  return gpus;
}

}  // namespace zf
