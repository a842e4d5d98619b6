#include "measure/node_bandwidth.hpp"

#include <algorithm>
#include <sstream>
#include <thread>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/step_types.hpp"
#include "base/text.hpp"
#include "children/child_output.hpp"
#include "compare/statistics.hpp"
#include "engine/working_set.hpp"
#include "measure/machine_meter.hpp"
#include "measure/working_set_size.hpp"

namespace zf {
namespace {

constexpr std::string_view kFailed = "error ";

/// Returns a pool of a thread a core for each NUMA node that has cores and memory.
std::vector<RankSplit> pools_of_nodes(const Topology& topology) {
  std::vector<RankSplit> pools;
  for (const NumaNode& node : topology.nodes) {
    RankSplit pool;
    for (const Core& core : topology.cores) {
      if (core.node == node.id) pool.pool.push_back(core.cpus.first());
    }
    if (pool.pool.empty() || node.memory_bytes == 0) continue;
    pool.optimizer = CpuSet(pool.pool);
    pool.pool_cores = static_cast<int>(pool.pool.size());
    pool.mems = {node.id};
    pools.push_back(std::move(pool));
  }
  return pools;
}

/// Returns bytes per second of all ranks of a split together.
double bandwidth_of(MachineMeter& meter, std::vector<RankSplit> ranks, std::string label,
                    Nanoseconds deadline_ns) {
  constexpr int kSamples = 12;
  const auto bytes = static_cast<double>(meter.elements_per_rank() * ranks.size() *
                                         measured_step_bytes(meter.state_format()));
  Split split;
  split.label = std::move(label);
  split.ranks = std::move(ranks);
  std::vector<double> figures;
  for (const SplitSample& sample : meter.measure(split, {kSamples, deadline_ns}))
    figures.push_back(bytes * 1e9 / static_cast<double>(sample.roofline_ns));
  if (figures.empty()) throw Error(Exit::runtime_error, "no pass over the memory was finished");
  return median(std::move(figures));
}

/// Runs in the child. Returns the figures of the pools and of all, or kFailed and the message.
std::string figures_text(const std::vector<RankSplit>& pools, std::uint64_t elements, Nanoseconds begin_ns,
                         Nanoseconds end_ns) {
  try {
    MachineMeter meter({.elements = elements, .isa = chosen_isa(), .roofline_each_round = true}, 1);
    const auto visits = static_cast<Nanoseconds>(pools.size() == 1 ? 1 : pools.size() + 1);
    Nanoseconds visit = 0;
    const auto next_deadline = [&] { return begin_ns + (end_ns - begin_ns) * ++visit / visits; };
    std::string text;
    for (const RankSplit& pool : pools)
      text += format_text("{} ", bandwidth_of(meter, {pool}, "one NUMA node", next_deadline()));
    if (pools.size() == 1) return text + text;
    return text + format_text("{}", bandwidth_of(meter, pools, "all NUMA nodes", next_deadline()));
  } catch (const Error& error) {
    return format_text("{}{}", kFailed, error.what());
  }
}

/// Returns the ticks of all CPUs together, and how many of them were idle.
std::optional<std::pair<double, double>> ticks_in(std::string_view stat) {
  std::istringstream words{std::string(stat.substr(0, stat.find('\n')))};
  std::string name;
  words >> name;
  double all = 0;
  double idle = 0;
  int field = 0;  // user nice system idle iowait irq softirq steal; guests are in user
  for (double ticks = 0; field < 8 && words >> ticks; ++field) {
    all += ticks;
    if (field == 3 || field == 4) idle += ticks;
  }
  return name == "cpu" && field >= 4 ? std::optional(std::pair(all, idle)) : std::nullopt;
}

}  // namespace

std::optional<double> busy_cpus(std::string_view before, std::string_view after, std::size_t cpus) {
  const auto first = ticks_in(before);
  const auto last = ticks_in(after);
  if (!first || !last || last->first <= first->first) return std::nullopt;
  const double idle = (last->second - first->second) / (last->first - first->first);
  return static_cast<double>(cpus) * (1 - std::clamp(idle, 0.0, 1.0));
}

std::optional<std::string> why_not_whole_and_idle(const Machine& machine) {
  constexpr auto kWatch = std::chrono::milliseconds(250);
  const Topology& topology = machine.topology;
  const Allowed& allowed = machine.allowed;
  if (!topology.is_this_machine) return format_text("{} is not this machine", topology.source);
  if (const CpuSet others = topology.cpus - allowed.cpus; !others.empty())
    return format_text("this process may not use {}", print_cpus(others));
  if (allowed.cpu_quota)
    return format_text("its CPU quota ({}) is {:.4g}", allowed.cpu_quota_path, *allowed.cpu_quota);
  NodeSet mems;
  for (const RankSplit& pool : pools_of_nodes(topology)) mems |= pool.mems;
  if (mems.empty()) return "no NUMA node has both cores and memory";
  if (!allowed.mems.contains(mems))
    return format_text("this process may not use the memory of {}", print_nodes(mems - allowed.mems));
  const auto stat = [] { return SysRoot().read("/proc/stat").value_or(""); };
  const std::string before = stat();
  std::this_thread::sleep_for(kWatch);
  const auto busy = busy_cpus(before, stat(), topology.cpus.size());
  if (!busy) return "/proc/stat does not say whether the node is idle";
  if (*busy > std::max(1.0, 0.05 * static_cast<double>(topology.cpus.size())))
    return format_text("the node is not idle: others use {:.1f} of {}", *busy,
                       print_count(topology.cpus.size(), "CPU"));
  return std::nullopt;
}

std::optional<NodeBandwidth> measure_node_bandwidth(const Machine& machine,
                                                    std::chrono::milliseconds deadline) {
  const Nanoseconds begin_ns = now_ns();
  const std::vector<RankSplit> pools = pools_of_nodes(machine.topology);
  const std::uint64_t elements =
      working_set_size(0, static_cast<int>(pools.size()), last_level_cache_bytes(machine.topology),
                       available_memory_bytes(SysRoot(), machine.allowed))
          .elements_per_rank;
  // The last fifth is for the last pass and for freeing the memory.
  const Nanoseconds end_ns = begin_ns + deadline.count() * kMillisecondNs * 4 / 5;
  const ChildOutput output =
      output_of_child([&] { return figures_text(pools, elements, begin_ns, end_ns); }, deadline);
  if (output.end == ChildOutput::End::late) return std::nullopt;
  if (output.end == ChildOutput::End::died)
    throw Error(Exit::runtime_error, "the process that measures this node died",
                "look in dmesg for the OOM killer");
  if (output.text.starts_with(kFailed)) throw Error(Exit::runtime_error, output.text.substr(kFailed.size()));
  NodeBandwidth measured;
  std::istringstream figures(output.text);
  for (const RankSplit& pool : pools) {
    measured.nodes.push_back({pool.mems.first(), 0});
    figures >> measured.nodes.back().bytes_per_s;
  }
  figures >> measured.all;
  return measured;
}

}  // namespace zf
