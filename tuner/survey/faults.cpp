#include "survey/faults.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "machine/fingerprint.hpp"

namespace zf {
namespace {

using Clauses = std::vector<std::string>;

/// What is different about the CPUs. `is_one_cause`: one fault explains all of it.
struct CpuFaults {
  Clauses clauses;
  bool is_one_cause = false;
};

/// Returns the one fault that explains why a node of this machine class is not of `usual`; "" if none does.
std::string one_cause(const MachineClass& usual, const NodeRecord& record) {
  const MachineClass& machine = record.machine;
  const bool same_packages = usual.packages == machine.packages;
  const bool same_counts = same_packages && usual.numa_nodes == machine.numa_nodes &&
                           usual.cores == machine.cores && usual.pus == machine.pus;
  if (usual.model != machine.model)
    return same_counts ? format_text("its CPU is {}, not {}", machine.model, usual.model) : "";
  if (!same_packages) return "";
  if (usual.cores == machine.cores && usual.numa_nodes == machine.numa_nodes) {
    if (machine.pus == machine.cores && usual.pus > usual.cores) return "SMT is off";
    if (usual.pus == usual.cores && machine.pus > machine.cores) return "SMT is on";
  }
  const CpuSet offline = record.offline & usual.cpus;
  if (!offline.empty() && usual.cpus == (machine.cpus | offline))
    return format_text("{} {} offline", print_cpus(offline), offline.size() == 1 ? "is" : "are");
  if (usual.cores == machine.cores && usual.pus == machine.pus && usual.numa_nodes != machine.numa_nodes)
    return format_text("it has {}, not {}: the firmware's NUMA mode differs (NPS or sub-NUMA clustering)",
                       print_count(machine.numa_nodes, "NUMA node"), usual.numa_nodes);
  return "";
}

CpuFaults cpu_faults(const MachineClass& usual, const NodeRecord& record) {
  if (usual.fingerprint == record.machine.fingerprint) return {{}, true};
  std::string cause = one_cause(usual, record);
  if (!cause.empty()) return {{std::move(cause)}, true};
  return {class_differences(usual, record.machine, "in its class"), false};
}

Clauses gpu_faults(const std::optional<GpuPlaces>& usual, const std::optional<GpuPlaces>& here) {
  if (usual == here) return {};
  const auto words = [](const std::optional<GpuPlaces>& gpus) {
    return gpus ? in_words(*gpus) : std::string("no device on PCI");
  };
  return {format_text("it has {}, and its class has {}", words(here), words(usual))};
}

Clauses memory_faults(const NodeClass& usual, const NodeRecord& record) {
  Clauses clauses;
  for (const ClassMemory& memory : usual.numa) {
    const auto here = std::find_if(record.numa.begin(), record.numa.end(),
                                   [&](const RecordedMemory& one) { return one.node == memory.node; });
    const std::uint64_t bytes = here == record.numa.end() ? 0 : here->memory_bytes;
    const bool is_usual = std::any_of(memory.memory_bytes.begin(), memory.memory_bytes.end(),
                                      [&](std::uint64_t size) { return memory_is_alike(size, bytes); });
    if (is_usual) continue;
    clauses.push_back(format_text("NUMA node {} has {} of memory, and {} in its class", memory.node.os_index,
                                  print_bytes(bytes), print_bytes(memory.memory_bytes.front())));
  }
  return clauses;
}

/// Returns a node's bandwidth as a share of its class's; nothing if one is not known.
std::optional<double> share_of(const std::optional<ClassBandwidth>& usual,
                               const std::optional<double>& here) {
  return usual && here ? std::optional(*here / usual->median_bytes_per_s) : std::nullopt;
}

bool is_outlier(const std::optional<ClassBandwidth>& usual, const std::optional<double>& share) {
  return share && usual->distance > 0 && std::abs(*share - 1) > usual->distance;
}

/// Returns one clause for the whole node if all of it is slow or fast, else one for each NUMA node that is.
Clauses bandwidth_faults(const NodeClass& usual, const NodeRecord& record, bool with_fast) {
  const auto is_odd = [&](const std::optional<ClassBandwidth>& of_class, const std::optional<double>& share) {
    return is_outlier(of_class, share) && (with_fast || *share < 1);
  };
  const auto clause = [](const std::string& subject, double share) {
    return format_text("{} {:.0f} % of its class's bandwidth", subject, 100 * share);
  };
  Clauses clauses;
  std::size_t measured = 0;
  for (const ClassMemory& memory : usual.numa) {
    for (const RecordedMemory& here : record.numa) {
      if (here.node != memory.node) continue;
      const auto share = share_of(memory.bandwidth, here.bytes_per_s);
      measured += share ? 1 : 0;
      if (is_odd(memory.bandwidth, share))
        clauses.push_back(clause(format_text("NUMA node {} has", memory.node.os_index), *share));
    }
  }
  const auto all = share_of(usual.bandwidth, record.bytes_per_s);
  const bool whole = clauses.empty() || clauses.size() == measured || 2 * clauses.size() > measured;
  if (is_odd(usual.bandwidth, all) && whole) return {clause("it has", *all)};
  return clauses;
}

bool has_same_numa_nodes(const NodeClass& usual, const NodeRecord& record) {
  return std::equal(usual.numa.begin(), usual.numa.end(), record.numa.begin(), record.numa.end(),
                    [](const ClassMemory& a, const RecordedMemory& b) { return a.node == b.node; });
}

/// How unlike a class a node is; the least is most like it.
auto unlikeness(const NodeClass& usual, const NodeRecord& record) {
  const CpuFaults cpus = cpu_faults(usual.machine, record);
  return std::tuple(!cpus.is_one_cause, usual.machine.model != record.machine.model,
                    cpus.clauses.size() + (usual.gpus == record.gpus ? 0U : 1U), -usual.nodes);
}

/// Compares a node with this class.
std::optional<OddNode> odd_as(const NodeClass& usual, const NodeRecord& record, const NodeComparison& what) {
  OddNode odd{record.name, usual.machine.fingerprint, cpu_faults(usual.machine, record).clauses};
  const auto add = [&](const Clauses& clauses) {
    odd.but.insert(odd.but.end(), clauses.begin(), clauses.end());
  };
  if (what.gpus) add(gpu_faults(usual.gpus, record.gpus));
  if (has_same_numa_nodes(usual, record)) {
    add(memory_faults(usual, record));
    add(bandwidth_faults(usual, record, what.fast));
  }
  return odd.but.empty() ? std::nullopt : std::optional(std::move(odd));
}

}  // namespace

std::optional<OddNode> odd_node(const NodeRecord& record, const std::vector<NodeClass>& classes,
                                const NodeComparison& what) {
  if (const NodeClass* const its = class_of(record, classes)) return odd_as(*its, record, what);
  std::optional<OddNode> odd;
  for (const NodeClass& one : classes) {
    if (what.gpus || one.machine.fingerprint != record.machine.fingerprint) continue;
    odd = odd_as(one, record, what);
    if (!odd) return odd;
  }
  if (odd) return odd;
  const auto usual = std::min_element(classes.begin(), classes.end(), [&](const auto& a, const auto& b) {
    return unlikeness(a, record) < unlikeness(b, record);
  });
  return odd_as(*usual, record, what);
}

bool is_kind_known(const NodeRecord& record, const std::vector<NodeClass>& classes) {
  return std::any_of(classes.begin(), classes.end(),
                     [&](const NodeClass& one) { return one.machine.model == record.machine.model; });
}

std::string in_words(const OddNode& odd) {
  return format_text("as {}, but {}", short_name(odd.as), join_text(odd.but, "; "));
}

std::string short_name(const std::string& fingerprint) { return fingerprint.substr(0, 8); }

}  // namespace zf
