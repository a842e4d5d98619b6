#include "os/allowed.hpp"

#include <charconv>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "os/meminfo.hpp"
#include "os/online_cpus.hpp"
#include "os/own_status.hpp"

namespace zf {
namespace {

constexpr const char* kHasMemory = "/sys/devices/system/node/has_memory";

template <class Set, class Print>
void refuse_strangers(const std::optional<Set>& list, const Set& known, const char* flag, Print with_noun) {
  if (!list || known.contains(*list)) return;
  const Set strangers = *list - known;
  throw Error(Exit::usage,
              format_text("{} {}: this machine has no {}", flag, print(*list), with_noun(strangers)),
              format_text("it has {}", print(known)));
}

std::string why_nothing_is_left(const Allowed& allowed) {
  std::string why;
  for (const auto& exclusion : allowed.exclusions) {
    why += format_text("{}{} {}", why.empty() ? "" : ", ", print(exclusion.cpus), exclusion.detail);
  }
  return why.empty() ? "none is listed as present or online in /sys/devices/system/cpu" : why;
}

NodeSet allowed_mems(const AllowedInputs& inputs) {
  NodeSet mems = inputs.nodes;
  // The kernel has no NUMA support, or the capture lacks the nodes. Then only the allowed nodes are known.
  if (mems.empty()) mems = inputs.affinity_mems.value_or(inputs.mems_list.value_or(NodeSet()));
  if (inputs.cgroup.mems) mems = mems & inputs.cgroup.mems->value;
  if (inputs.affinity_mems) mems = mems & *inputs.affinity_mems;
  if (inputs.mems_list) mems = mems & *inputs.mems_list;
  return mems;
}

/// Returns the nodes with memory on kernels before 3.8, which have no has_memory file.
NodeSet nodes_by_meminfo(const SysRoot& sysroot) {
  const std::string folder = "/sys/devices/system/node";
  NodeSet nodes;
  for (const auto& name : sysroot.list(folder)) {
    int id = -1;
    const char* end = name.data() + name.size();
    if (!name.starts_with("node") || std::from_chars(name.data() + 4, end, id).ptr != end) continue;
    const std::string text = sysroot.read(format_text("{}/{}/meminfo", folder, name)).value_or("");
    if (meminfo_bytes(text, "MemTotal").value_or(0) != 0) nodes.insert(Node{id});
  }
  return nodes;
}

}  // namespace

Allowed allowed_from(const AllowedInputs& inputs) {
  refuse_strangers(inputs.list, inputs.present, inputs.list_option.c_str(), print_cpus);
  if (!inputs.nodes.empty()) {
    refuse_strangers(inputs.mems_list, inputs.nodes, "--mems",
                     [](const NodeSet& nodes) { return "memory " + print_nodes(nodes); });
  }

  Allowed allowed;
  allowed.cpus = inputs.present;
  const auto keep = [&](const CpuSet& left, ExclusionReason reason, std::string detail) {
    CpuSet gone = allowed.cpus - left;
    if (gone.empty()) return;
    allowed.cpus = allowed.cpus & left;
    allowed.exclusions.push_back({reason, std::move(gone), std::move(detail)});
  };
  // The kernel keeps no CPU in a mask that is offline, whatever the files say.
  keep(inputs.affinity ? inputs.online | *inputs.affinity : inputs.online, ExclusionReason::offline,
       "offline");
  if (inputs.cgroup.cpus) {
    keep(inputs.cgroup.cpus->value, ExclusionReason::cgroup_cpuset,
         format_text("outside the cgroup's cpuset ({})", inputs.cgroup.cpus->path));
  }
  if (inputs.affinity) {
    keep(
        *inputs.affinity, ExclusionReason::affinity_mask,
        inputs.cgroup.cpus
            ? "outside the affinity mask (taskset, srun --cpu-bind)"
            : "outside the affinity mask (taskset, srun --cpu-bind, or a cpuset that is not seen from here)");
  }
  if (inputs.list) keep(*inputs.list, ExclusionReason::not_in_list, "not in " + inputs.list_option);

  allowed.mems = allowed_mems(inputs);
  if (inputs.cgroup.cpu_quota) {
    allowed.cpu_quota = inputs.cgroup.cpu_quota->value;
    allowed.cpu_quota_path = inputs.cgroup.cpu_quota->path;
  }
  if (inputs.cgroup.memory_bytes) {
    allowed.memory_bytes = inputs.cgroup.memory_bytes->value;
    allowed.memory_path = inputs.cgroup.memory_bytes->path;
  }
  allowed.missing = inputs.missing;

  if (allowed.cpus.empty()) {
    throw Error(Exit::infeasible, format_text("no CPU is left to use: {}", why_nothing_is_left(allowed)),
                "widen --allowed or the job's CPUs");
  }
  if (allowed.mems.empty() && !inputs.nodes.empty()) {
    throw Error(Exit::infeasible, format_text("no NUMA node is left to use of {}", print(inputs.nodes)),
                "widen --mems or the cgroup's cpuset.mems");
  }
  return allowed;
}

AllowedInputs read_allowed_inputs(const SysRoot& sysroot) {
  AllowedInputs inputs;
  OnlineCpus online = read_online_cpus(sysroot);
  inputs.present = std::move(online.present);
  inputs.online = std::move(online.cpus);
  inputs.affinity = std::move(online.mask);
  inputs.missing = std::move(online.missing);
  if (!online.contradiction.empty()) inputs.missing.push_back(std::move(online.contradiction));

  const auto with_memory = sysroot.read(kHasMemory);
  inputs.nodes = with_memory ? parse_node_list(*with_memory, kHasMemory) : nodes_by_meminfo(sysroot);
  if (inputs.nodes.empty())
    inputs.missing.push_back("/sys/devices/system/node lists no node that has memory");

  if (const auto list = status_field(sysroot, "Mems_allowed_list")) {
    inputs.affinity_mems = parse_node_list(*list, kStatusFile);
  } else if (sysroot.is_this_machine()) {
    inputs.missing.push_back(format_text("{} has no field Mems_allowed_list", kStatusFile));
  }
  inputs.cgroup = read_cgroup_limits(sysroot);
  return inputs;
}

Allowed read_allowed(const SysRoot& sysroot) { return allowed_from(read_allowed_inputs(sysroot)); }

}  // namespace zf
