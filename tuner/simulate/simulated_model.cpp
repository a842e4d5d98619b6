#include "simulate/simulated_model.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/step_types.hpp"
#include "plan/period.hpp"

namespace zf {
namespace {

constexpr double kRegions = 40;    // forks and joins in the host work of one training step
constexpr double kHelpers = 3;     // threads besides the launching one: autograd, collectives, data loading
constexpr double kLaunchTail = 4;  // p99 over p50
// Linux lets a busy thread run for 0.75 ms x (1 + log2(8)) before another one of its core gets a turn
// (kernel/sched/fair.c, sysctl_sched_base_slice, 8 or more CPUs).
constexpr double kTimeSliceNs = 3e6;

constexpr double kNsPerS = 1e9;
constexpr int kFixedPointRounds = 6;

int node_index(const Core& core) { return core.node ? core.node->os_index : -1; }

/// Returns the first PU of each core in the set, because training runs one thread per core.
std::vector<Pu> one_per_core(const CpuSet& cpus, const std::map<int, std::size_t>& core_of_pu) {
  std::set<std::size_t> seen;
  std::vector<Pu> pus;
  for (const Pu pu : cpus) {
    if (seen.insert(core_of_pu.at(pu.os_index)).second) pus.push_back(pu);
  }
  return pus;
}

}  // namespace

/// The memory traffic of both sides.
struct SimulatedModel::Traffic {
  std::map<int, double> pool_wanted;  ///< bytes per second by node, of all ranks, while the optimizer steps
  std::map<int, double> training_burst;  ///< the same, while training works on the host
  double pool_busy = 0;                  ///< share of training's time in which the optimizer steps beside it
  double host_busy = 0;                  ///< share of the step's time in which training works on the host
};

SimulatedModel::SimulatedModel(SimulatedMachine machine, const Workload& workload)
    : machine_(std::move(machine)),
      workload_(workload),
      training_demand_(workload.training.value_or(TrainingDemand{})) {
  const auto& cores = machine_.topology.cores;
  for (std::size_t core = 0; core < cores.size(); ++core) {
    for (const Pu pu : cores[core].cpus) core_of_pu_[pu.os_index] = core;
  }
}

double SimulatedModel::node_bytes_per_s(int node) const {
  const bool slow = machine_.slow_node && machine_.slow_node->node.os_index == node;
  return machine_.memory.node_bytes_per_s * (slow ? machine_.slow_node->speed : 1);
}

/// Returns `wanted` saturated at `limit`, more sharply the higher the machine's sharpness.
double SimulatedModel::limited(double wanted, double limit) const {
  const double p = machine_.memory.sharpness;
  return wanted * std::pow(1 + std::pow(wanted / limit, p), -1 / p);
}

/// Returns how much of `capacity` a side gets that wants `wanted` while the others take `others`: what they
/// leave, or its proportional share, whichever is more.
double SimulatedModel::bandwidth_left_for(double wanted, double others, double capacity) const {
  return limited(wanted, std::max(capacity - others, capacity * wanted / (wanted + others)));
}

SimulatedModel::Threads SimulatedModel::threads_on(const std::vector<Pu>& pus) const {
  std::map<std::size_t, int> threads_of_core;
  for (const Pu pu : pus) ++threads_of_core[core_of_pu_.at(pu.os_index)];

  const auto rate_of = [&](const Core& core, int threads) {
    const auto all = static_cast<double>(core.cpus.size());
    const double gain = all > 1 ? 1 + (machine_.smt_gain - 1) * (threads - 1) / (all - 1) : 1;
    return machine_.memory.core_bytes_per_s * machine_.speed_of(core) * gain;
  };
  std::map<int, double> l3_wanted;
  for (const auto& [index, threads] : threads_of_core) {
    const Core& core = machine_.topology.cores[index];
    l3_wanted[core.l3] += rate_of(core, threads);
  }
  const SimulatedMemory& memory = machine_.memory;
  std::map<int, double> link_wanted;
  for (const auto& [l3, wanted] : l3_wanted) {
    if (l3 >= 0) link_wanted[l3 / memory.l3_per_link] += limited(wanted, memory.l3_bytes_per_s);
  }
  // The share of its wanted bandwidth that an L3 group gets through itself and through its die's link.
  const auto granted_to = [&](int l3) {
    if (l3 < 0) return 1.0;
    const double link = link_wanted[l3 / memory.l3_per_link];
    const double through_link =
        memory.link_bytes_per_s > 0 ? limited(link, memory.link_bytes_per_s) / link : 1;
    return limited(l3_wanted[l3], memory.l3_bytes_per_s) / l3_wanted[l3] * through_link;
  };
  Threads result;
  result.count = static_cast<int>(pus.size());
  for (const auto& [index, threads] : threads_of_core) {
    const Core& core = machine_.topology.cores[index];
    const double rate = rate_of(core, threads) * granted_to(core.l3);
    Threads::OnNode& node = result.nodes[node_index(core)];
    node.slowest_bytes_per_s =
        node.bytes_per_s == 0 ? rate / threads : std::min(node.slowest_bytes_per_s, rate / threads);
    node.bytes_per_s += rate;
  }
  return result;
}

SimulatedModel::Rank SimulatedModel::rank_model(const RankSplit& split) const {
  Rank rank;
  rank.pool = threads_on(split.pool);
  // On average, unbound threads are on the rank's own home.
  const auto training = split.unbound ? split.pool : one_per_core(split.training, core_of_pu_);
  rank.training = threads_on(training);
  rank.shares_cores = split.shared || split.unbound;
  rank.is_unbound = split.unbound;
  const auto cores = static_cast<double>(training.size());
  rank.crowd = std::max(0.0, (kHelpers + 1) / cores - 1);
  if (split.unbound) {
    const auto nodes = static_cast<double>(split.mems.size());
    const double remote = machine_.memory.remote_bytes_per_s / machine_.memory.node_bytes_per_s;
    rank.locality = 1 / (1 / nodes + (1 - 1 / nodes) / std::min(1.0, remote));
  }
  const Core& launching = machine_.topology.cores[core_of_pu_.at(training.front().os_index)];
  rank.launch_speed = machine_.speed_of(launching);
  rank.launch_node = node_index(launching);
  return rank;
}

/// Returns the time of an optimizer step. Every thread has an equal slice, so the slowest one sets the pace.
double SimulatedModel::step_ns(const std::vector<Rank>& ranks, const Traffic& traffic) const {
  const double bytes = static_cast<double>(kAdamBytesPerParam * workload_.params) / workload_.ranks;
  double slowest_ns = 0;
  for (const Rank& rank : ranks) {
    double pace = 0;  // bytes per second of the slowest thread
    for (const auto& [node, threads] : rank.pool.nodes) {
      const double wanted = traffic.pool_wanted.at(node);
      const auto burst = traffic.training_burst.find(node);
      const double others = burst == traffic.training_burst.end() ? 0 : burst->second * traffic.host_busy;
      const double granted = bandwidth_left_for(wanted, others, node_bytes_per_s(node)) / wanted;
      const double mine = threads.slowest_bytes_per_s * granted * rank.locality * machine_.memory.adam_share;
      pace = pace == 0 ? mine : std::min(pace, mine);
    }
    if (rank.shares_cores) pace /= 1 + traffic.host_busy;
    const double ns =
        bytes / rank.pool.count / pace * kNsPerS + machine_.sync_ns_per_thread * rank.pool.count;
    slowest_ns = std::max(slowest_ns, ns);
  }
  return slowest_ns;
}

/// Returns the mean of an update's training steps without host work. The GPU runs at the same time as
/// launches and computing, and in the last step the copy of the gradients does too: a thread on training's
/// cores makes it, through a buffer of the driver, because the memory is not pinned.
double SimulatedModel::off_host_ns(const Rank& rank, double launch_delay_ns, double pool_busy) const {
  const auto launch_ns =
      static_cast<double>(training_demand_.launch_ns) / rank.launch_speed + launch_delay_ns;
  const double crowd = rank.shares_cores ? 1 + pool_busy : 1;
  const double compute_ns =
      static_cast<double>(training_demand_.parallel_ns) * crowd / rank.training.count / rank.launch_speed;
  const double copy_ns = training_demand_.gradient_bytes == 0
                             ? 0
                             : static_cast<double>(training_demand_.gradient_bytes) /
                                   static_cast<double>(training_demand_.copy_bytes_per_s) * kNsPerS * crowd;
  const double usual = std::max(static_cast<double>(training_demand_.gpu_ns),
                                static_cast<double>(training_demand_.launches) * launch_ns + compute_ns);
  const double last = std::max(usual, copy_ns);
  return usual + (last - usual) / workload_.update_interval;
}

double SimulatedModel::training_ns(const std::vector<Rank>& ranks, const Traffic& traffic,
                                   double* launch_delay_ns) const {
  double slowest_ns = 0;
  *launch_delay_ns = 0;
  const auto pool_traffic = [&](int node) {
    const auto wanted = traffic.pool_wanted.find(node);
    return wanted == traffic.pool_wanted.end()
               ? 0.0
               : limited(wanted->second, node_bytes_per_s(node)) * traffic.pool_busy;
  };
  if (!workload_.training) return 0;
  for (const Rank& rank : ranks) {
    double host_bytes_per_s = 0;
    for (const auto& [node, threads] : rank.training.nodes) {
      const double wanted = traffic.training_burst.at(node);
      const double granted = bandwidth_left_for(wanted, pool_traffic(node), node_bytes_per_s(node)) / wanted;
      host_bytes_per_s += threads.bytes_per_s * granted * rank.locality;
    }
    if (rank.shares_cores) host_bytes_per_s /= 1 + traffic.pool_busy;
    // Share of the joins at which a thread waits for a thread of others on its core. Unbound, each rank
    // starts as many threads as the machine has cores.
    const double behind_others = rank.is_unbound && ranks.size() > 1 ? 1
                                 : rank.shares_cores                 ? traffic.pool_busy
                                                                     : 0;
    const double host_ns =
        (static_cast<double>(training_demand_.host_bytes) / host_bytes_per_s * kNsPerS +
         kRegions * (machine_.sync_ns_per_thread * rank.training.count + kTimeSliceNs * behind_others)) /
        workload_.update_interval;

    const double taken = std::min(1.0, pool_traffic(rank.launch_node) / node_bytes_per_s(rank.launch_node));
    const double crowd = rank.crowd + (rank.shares_cores ? traffic.pool_busy : 0);
    const double delay = machine_.launch_delay_ns * (1 + machine_.launch_crowding * crowd) *
                         (1 + machine_.launch_interference * taken) / rank.launch_speed;
    *launch_delay_ns = std::max(*launch_delay_ns, delay);
    slowest_ns = std::max(slowest_ns, off_host_ns(rank, delay, traffic.pool_busy) + host_ns);
  }
  return slowest_ns;
}

SplitSample SimulatedModel::times_of(const Split& split) const {
  std::vector<Rank> ranks;
  Traffic traffic;
  for (const RankSplit& side : split.ranks) {
    const Rank& rank = ranks.emplace_back(rank_model(side));
    for (const auto& [node, threads] : rank.pool.nodes) traffic.pool_wanted[node] += threads.bytes_per_s;
    for (const auto& [node, threads] : rank.training.nodes)
      traffic.training_burst[node] += threads.bytes_per_s;
  }
  const double roofline = step_ns(ranks, traffic);  // nothing is busy yet
  const Schedule schedule = schedule_of(workload_, 1);
  if (workload_.mode != Mode::wait) traffic.pool_busy = traffic.host_busy = 0.5;

  double step = roofline;
  double training = 0;
  double delay = 0;
  for (int round = 0; round < kFixedPointRounds; ++round) {
    training = training_ns(ranks, traffic, &delay);
    step = step_ns(ranks, traffic);
    if (training == 0) continue;
    const double beside = std::min(step, window_of(training, schedule));
    const double host_share =
        std::max(0.0, training - off_host_ns(ranks.front(), delay, traffic.pool_busy)) / training;
    // Goes only half of the way, because the plain iteration oscillates: if one side is slow, the other gets
    // faster.
    traffic.pool_busy = (traffic.pool_busy + beside / (workload_.update_interval * training)) / 2;
    traffic.host_busy = (traffic.host_busy + beside / step * host_share) / 2;
  }
  SplitSample times;
  times.step_ns = std::llround(step);
  times.roofline_ns = std::llround(std::min(roofline, step));
  times.training_ns = std::llround(training);
  times.launch_delay_p50_ns = std::llround(delay);
  times.launch_delay_p99_ns = std::llround(delay * kLaunchTail);
  times.training_bytes = (training_demand_.host_bytes + training_demand_.gradient_bytes) *
                         static_cast<std::uint64_t>(workload_.ranks);
  return times;
}

}  // namespace zf
