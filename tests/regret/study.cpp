#include "study.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <thread>

#include "base/format.hpp"
#include "measure/training_demand.hpp"
#include "measure/workload_file.hpp"
#include "search/tuning.hpp"
#include "simulate/simulated_meter.hpp"
#include "topology/topology_hwloc.hpp"

namespace zf {
namespace {

/// Above this, a visit's median is uncertain by more than the accuracy that the search aims at.
bool is_noisy(const SimulatedNoise& noise) {
  return noise.relative > 0.03 || noise.visit > 0.015 || noise.outlier_rate > 0.1 || noise.drift > 0.05;
}

int smallest_home(const std::vector<Home>& homes) {
  const auto smallest = std::min_element(homes.begin(), homes.end(), [](const Home& a, const Home& b) {
    return a.cores.size() < b.cores.size();
  });
  return static_cast<int>(smallest->cores.size());
}

/// Returns every shape of a split: all pool sizes, placements, numbers of PUs per core, CPU kinds, shared or
/// divided, and on divided homes all training cores, or three quarters, half or a quarter of them.
std::vector<SplitShape> all_shapes(const SimulatedJob& job) {
  const int cores = smallest_home(job.placed.homes);
  const auto kinds = static_cast<int>(job.machine.topology.cpu_kinds.size());
  std::vector<SplitShape> shapes;
  for (int kind = -1; kind < (kinds > 1 ? kinds : 0); ++kind) {
    for (const int pus_per_core : {1, 0}) {
      for (const Placement placement : {Placement::compact, Placement::spread}) {
        for (int pool = 1; pool <= cores; ++pool) {
          SplitShape shape{.pool_cores = pool, .pool_pus_per_core = pus_per_core, .placement = placement};
          if (kind >= 0) shape.pool_make = kind;
          shape.shared = true;
          shapes.push_back(shape);
          if (pool == cores) continue;
          shape.shared = false;
          std::set<int> reserved{0};
          for (int quarter = 1; quarter < 4; ++quarter) reserved.insert((cores - pool) * quarter / 4);
          for (const int count : reserved) {
            shape.reserved_cores = count;
            shapes.push_back(shape);
          }
        }
      }
    }
  }
  return shapes;
}

}  // namespace

std::vector<Case> cases_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Case> cases;
  for (const auto& file : files) {
    SimulatedMachine machine = load_simulated_machine(file);
    Workload workload = load_workload(machine.workload);
    const int ranks = machine.ranks;
    const bool noisy = is_noisy(machine.noise);
    cases.push_back({file.stem().string(), std::move(machine), std::move(workload), ranks, noisy});
  }
  return cases;
}

std::vector<Case> generated_cases(int count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto between = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random));
  };
  const auto one_of = [&](auto... values) {
    const std::vector<int> list{values...};
    return list[std::uniform_int_distribution<std::size_t>(0, list.size() - 1)(random)];
  };
  std::vector<Case> cases;
  for (int i = 0; i < count; ++i) {
    const int packages = one_of(1, 1, 2);
    const int l3_groups = one_of(1, 1, 2, 4, 8);
    const int cores = one_of(2, 3, 4, 6, 8, 12, 16);
    const int of_node = l3_groups * cores;
    SimulatedMachine machine;
    machine.name = format_text("generated-{}", i);
    machine.topology = read_topology({format_text("pack:{} [numa(memory=512GiB)] l3u:{} core:{} pu:{}",
                                                  packages, l3_groups, cores, one_of(1, 2)),
                                      {}});
    machine.topology.source = machine.topology.cpu_model = machine.name;
    for (Core& core : machine.topology.cores) core.kind = 0;
    SimulatedMemory& memory = machine.memory;
    memory.core_bytes_per_s = 1e9 * between(4, 30);
    memory.node_bytes_per_s = memory.core_bytes_per_s * std::max(1.0, of_node * between(0.05, 1));
    memory.l3_bytes_per_s =
        std::max(memory.core_bytes_per_s, memory.node_bytes_per_s / l3_groups * between(0.7, 3));
    memory.remote_bytes_per_s = memory.node_bytes_per_s * between(0.1, 0.8);
    memory.sharpness = between(2, 12);
    machine.smt_gain = between(1, 1.3);
    machine.sync_ns_per_thread = between(50, 500);
    machine.launch_delay_ns = between(500, 8000);
    machine.launch_crowding = between(0.1, 3);
    machine.launch_interference = between(0.1, 2);
    machine.noise = {between(0.005, 0.03), between(0.001, 0.03), between(1.2, 3),
                     between(0.001, 0.01), between(0.001, 0.02), 60 * kSecondNs};
    Workload workload{"generated", 0, packages * one_of(1, 1, 2), 1};
    if (workload.ranks > packages * of_node / 2) workload.ranks = 1;
    workload.params = static_cast<std::uint64_t>(between(2e8, 8e9));
    workload.training = small_training_demand(workload.params / static_cast<std::uint64_t>(workload.ranks));
    workload.training->gpu_ns =
        std::llround(static_cast<double>(workload.training->gpu_ns) * between(0.1, 3));
    const int ranks = workload.ranks;
    cases.push_back({machine.name, std::move(machine), std::move(workload), ranks, false});
  }
  return cases;
}

Case with_tails(Case one, const Tails& tails) {
  SimulatedNoise& noise = one.machine.noise;
  noise.relative = 0.01;
  noise.visit = 0.005;
  noise.drift = 0.005;
  noise.outlier_rate = tails.rate;
  noise.outlier_factor = tails.factor;
  noise.is_common = tails.is_common;
  one.name += format_text(", {:.0f} % x {:g}, {}", 100 * tails.rate, tails.factor,
                          tails.is_common ? "common" : "apart");
  one.noisy = true;
  return one;
}

Case large_case() {
  SimulatedMachine machine;
  machine.name = "2 x 48 cores";
  machine.topology = read_topology({"pack:2 [numa(memory=512GiB)] l3u:6 core:8 pu:1", {}});
  machine.topology.source = machine.topology.cpu_model = machine.name;
  for (Core& core : machine.topology.cores) core.kind = 0;
  machine.memory = {12e9, 60e9, 250e9, 60e9, 6};
  machine.smt_gain = 1.1;
  machine.sync_ns_per_thread = 200;
  machine.launch_delay_ns = 4000;
  machine.launch_crowding = 1.5;
  machine.launch_interference = 0.5;
  constexpr std::uint64_t kParamsOfRank = 71'303'168;  // what is measured without a workload
  Workload workload{"small", 4 * kParamsOfRank, 4, 1};
  workload.training = small_training_demand(kParamsOfRank);
  workload.training->gpu_ns /= 4;  // so that the launches count
  return {machine.name, std::move(machine), std::move(workload), 4, false};
}

Case scaled_case(const std::filesystem::path& machines, int cores) {
  SimulatedMachine machine = load_simulated_machine(machines / "grace-hopper.json");
  const auto scale = static_cast<double>(cores) / static_cast<double>(machine.topology.cores.size());
  machine.topology =
      read_topology({format_text("pack:1 [numa(memory=960GiB)] l3u:{} core:8 pu:1", cores / 8), {}});
  machine.memory.node_bytes_per_s *= scale;
  Workload workload = load_workload(machine.workload);
  return {format_text("grace-hopper, {} cores", cores), std::move(machine), std::move(workload), 1, false};
}

Case in_mode(Case one, Mode mode, int update_interval) {
  one.workload.mode = mode;
  one.workload.update_interval = update_interval;
  one.workload.framework = Framework::unknown;  // no split is left out because a framework cannot express it
  return one;
}

Trialed::Trialed(const Case& one)
    : job(simulated_job(one.machine, one.workload, one.ranks)),
      schedule(schedule_of(job.model.workload(), 1)),
      best_ns(std::numeric_limits<double>::infinity()) {
  for (const SplitShape& shape : all_shapes(job)) {
    Split split = split_of(job.placed.homes, shape);
    const double period = periods.emplace_back(period_of(split));
    if (period >= best_ns) continue;
    best_ns = period;
    best = std::move(split);
  }
}

double Trialed::period_of(const Split& split) const { return period_ns(job.model.times_of(split), schedule); }

double smallest_loss(const Trialed& expected, const std::vector<Trialed>& others, double regret) {
  double smallest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < expected.periods.size(); ++i) {
    if (expected.periods[i] > expected.best_ns * (1 + regret)) continue;
    double loss = 0;
    for (const Trialed& other : others) loss = std::max(loss, other.periods[i] / other.best_ns - 1);
    smallest = std::min(smallest, loss);
  }
  return smallest;
}

Swept swept(const Trialed& trialed, int seed) {
  SimulatedMeter meter(trialed.job.model, trialed.job.elements_per_rank, static_cast<std::uint64_t>(seed));
  SweepLimits limits;
  limits.seed = static_cast<unsigned>(seed);
  Swept swept;
  swept.result = sweep(trialed.job.placed.homes, trialed.job.model.workload(), meter, limits, nullptr);
  const Evidence& evidence = swept.result.evidence;
  swept.choice = choose(evidence, trialed.job.model.workload());
  std::set<std::pair<int, int>> estimates;
  for (const Sample& sample : evidence.samples) {
    if (evidence.estimate_round >= 0 && sample.round >= evidence.estimate_round)
      estimates.insert({sample.round, sample.candidate});
  }
  swept.estimate_visits = static_cast<int>(estimates.size());
  swept.find_visits = swept.result.visits - swept.estimate_visits;
  return swept;
}

void for_each_index(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) threads.emplace_back(run);
}

}  // namespace zf
