// Measures the regret of the search: compares sweeps of simulated machines with the best of all splits
// without noise. Prints a table, and exits with 1 if a promise is broken. Usage: regret [SEEDS
// [MACHINES_FOLDER]]
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "machine/topology_hwloc.hpp"
#include "measure/training_demand.hpp"
#include "search/candidates.hpp"
#include "search/choose.hpp"
#include "search/decision.hpp"
#include "search/sweep.hpp"
#include "simulate/simulated_job.hpp"
#include "simulate/simulated_meter.hpp"
#include "text/statistics.hpp"
#include "text/table.hpp"

namespace zf {
namespace {

// What the search promises.
constexpr double kRegretOf95 = 0.03;
constexpr double kRegretOfAll = 0.08;
constexpr int kEvaluations = 60;
constexpr double kVisitsPerDoubling = 8;  // of the core count: visits grow with its logarithm

double period_of(const SimulatedJob& job, const Split& split) {
  return static_cast<double>(period_ns(job.model.times_of(split), job.model.workload().update_interval));
}

int smallest_home(const std::vector<Home>& homes) {
  const auto smallest = std::min_element(homes.begin(), homes.end(), [](const Home& a, const Home& b) {
    return a.cores.size() < b.cores.size();
  });
  return static_cast<int>(smallest->cores.size());
}

struct Best {
  Split split;
  double period_ns = std::numeric_limits<double>::infinity();
};

/// Computes the period of every split: all pool sizes, placements, numbers of PUs per core, CPU kinds and
/// numbers of reserved cores. Returns the best one.
Best exhaustive(const SimulatedJob& job) {
  const int cores = smallest_home(job.placed.homes);
  const auto kinds = static_cast<int>(job.machine.topology.cpu_kinds.size());
  Best best;
  for (int kind = -1; kind < (kinds > 1 ? kinds : 0); ++kind) {
    for (int pool = 1; pool < std::max(cores, 2); ++pool) {
      for (const int pus_per_core : {1, 0}) {
        for (const Placement placement : {Placement::compact, Placement::spread}) {
          for (int reserved = 1; reserved <= std::max(1, cores - pool); ++reserved) {
            SplitShape shape{pool, pus_per_core, placement, reserved == cores - pool ? 0 : reserved,
                             {},   Control::none};
            if (kind >= 0) shape.pool_kind = kind;
            Split split = split_of(job.placed.homes, shape);
            const double period = period_of(job, split);
            if (period < best.period_ns) best = {std::move(split), period};
          }
        }
      }
    }
  }
  return best;
}

struct Row {
  std::string name;
  int cores = 0;
  int ranks = 0;
  std::vector<double> regrets;
  std::vector<double> splits;
  std::vector<double> visits;
  std::string chosen;
  std::string optimum;

  bool keeps_promises() const {
    return quantile(regrets, 0.95) <= kRegretOf95 && quantile(regrets, 1) <= kRegretOfAll &&
           quantile(visits, 1) <= kEvaluations;
  }
};

/// Workloads with different bottlenecks. With a short interval, training waits for the optimizer. With a fast
/// GPU as well, both sides are short of cores.
struct Variant {
  const char* name;
  int update_interval;  ///< 0 means that of the file
  int gpu_speed;
};
constexpr Variant kVariants[] = {{"", 0, 1}, {", every step", 1, 1}, {", every step, GPU 4x", 1, 4}};

Workload varied(Workload workload, const Variant& variant) {
  if (variant.update_interval != 0) workload.update_interval = variant.update_interval;
  if (workload.training) workload.training->gpu_ns /= variant.gpu_speed;
  return workload;
}

SweepResult swept(const SimulatedJob& job, int seed) {
  SimulatedMeter meter(job.model, job.elements_per_rank, static_cast<std::uint64_t>(seed));
  SweepLimits limits;
  limits.seed = static_cast<unsigned>(seed);
  return sweep(job.placed.homes, job.model.workload(), meter, limits, nullptr);
}

Row measure(const std::filesystem::path& path, const Variant& variant, int seeds) {
  const Workload own = load_workload(load_simulated_machine(path).workload);
  const SimulatedJob job = simulated_job(path, varied(own, variant), {});
  const Best best = exhaustive(job);
  Row row{path.stem().string() + variant.name,
          static_cast<int>(job.machine.topology.cores.size()),
          job.model.workload().ranks,
          {},
          {},
          {},
          "",
          best.split.label};
  for (int seed = 1; seed <= seeds; ++seed) {
    const SweepResult result = swept(job, seed);
    const Choice choice = choose(result.evidence, job.model.workload());
    const Split& chosen = result.splits[static_cast<std::size_t>(choice.candidate)];
    row.regrets.push_back(period_of(job, chosen) / best.period_ns - 1);
    row.splits.push_back(static_cast<double>(result.splits.size()));
    row.visits.push_back(result.visits);
    if (seed == 1) row.chosen = chosen.label;
  }
  return row;
}

std::string percent(double value) { return fmt::format("{:.2f} %", 100 * value); }

/// Returns a machine with that many cores for one rank, with the same L3 groups and the same bandwidth per
/// core.
SimulatedJob scaled_job(SimulatedMachine machine, int cores) {
  const auto scale = static_cast<double>(cores) / static_cast<double>(machine.topology.cores.size());
  machine.topology =
      read_topology({fmt::format("pack:1 [numa(memory=960GiB)] l3u:{} core:8 pu:1", cores / 8), {}});
  machine.memory.node_bytes_per_s *= scale;
  const Workload workload = load_workload(machine.workload);
  return simulated_job(std::move(machine), varied(workload, kVariants[1]), 1);
}

/// Prints how the number of visits grows over machines of 8 to 512 cores. Returns whether it keeps the
/// promise.
bool show_growth(const std::filesystem::path& path, int seeds) {
  using enum Table::Align;
  Table table({{"cores"}, {"splits p50"}, {"visits p50"}, {"max"}});
  constexpr int kFewest = 8;
  constexpr int kMost = 512;
  double first = 0;
  double last = 0;
  for (int cores = kFewest; cores <= kMost; cores *= 2) {
    const SimulatedJob job = scaled_job(load_simulated_machine(path), cores);
    std::vector<double> visits;
    std::vector<double> splits;
    for (int seed = 1; seed <= seeds; ++seed) {
      const SweepResult result = swept(job, seed);
      visits.push_back(result.visits);
      splits.push_back(static_cast<double>(result.splits.size()));
    }
    last = median(visits);
    if (cores == kFewest) first = last;
    table.add({std::to_string(cores), fmt::format("{:.0f}", median(splits)), fmt::format("{:.0f}", last),
               fmt::format("{:.0f}", quantile(visits, 1))});
  }
  const double per_doubling = (last - first) / std::log2(kMost / kFewest);
  const bool kept = per_doubling <= kVisitsPerDoubling;
  fmt::print(
      "\n{} with other numbers of cores, every step: {:.1f} visits per doubling; promised: <= {}{}\n\n{}",
      path.stem().string(), per_doubling, kVisitsPerDoubling, kept ? "" : " BROKEN", table.print());
  return kept;
}

int run(int seeds, const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> machines;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") machines.push_back(entry.path());
  }
  std::sort(machines.begin(), machines.end());
  using enum Table::Align;
  Table table({{"machine", left},
               {"cores"},
               {"ranks"},
               {"regret p50"},
               {"p95"},
               {"max"},
               {"splits"},
               {"visits p50"},
               {"max"},
               {"chosen (seed 1)", left},
               {"best of all", left},
               {"", left}});
  bool kept = !machines.empty();
  const auto add = [&](const Row& row) {
    kept = kept && row.keeps_promises();
    table.add({row.name, std::to_string(row.cores), std::to_string(row.ranks), percent(median(row.regrets)),
               percent(quantile(row.regrets, 0.95)), percent(quantile(row.regrets, 1)),
               fmt::format("{:.0f}", quantile(row.splits, 1)), fmt::format("{:.0f}", median(row.visits)),
               fmt::format("{:.0f}", quantile(row.visits, 1)), row.chosen, row.optimum,
               row.keeps_promises() ? "" : "BROKEN"});
  };
  for (const auto& path : machines) {
    for (const Variant& variant : kVariants) add(measure(path, variant, seeds));
  }
  fmt::print("{} seeds each; promised: regret p95 <= {}, max <= {}, visits <= {}\n\n{}", seeds,
             percent(kRegretOf95), percent(kRegretOfAll), kEvaluations, table.print());
  return show_growth(folder / "grace-hopper.json", seeds) && kept ? 0 : 1;
}

}  // namespace
}  // namespace zf

int main(int argc, char** argv) {
  int seeds = 200;
  if (argc > 1) {
    const std::string_view text = argv[1];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seeds);
    if (error != std::errc() || end != text.data() + text.size() || seeds < 1) {
      fmt::print(stderr, "regret: \"{}\" is not a number of seeds\n", text);
      return 2;
    }
  }
  try {
    return zf::run(seeds, argc > 2 ? argv[2] : ZF_SOURCE_DIR "/configs/machines");
  } catch (const zf::Error& error) {
    fmt::print(stderr, "regret: {}\n", error.what());
    return static_cast<int>(error.exit());
  }
}
