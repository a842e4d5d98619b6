#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/cpu_list.hpp"
#include "commands/commands.hpp"
#include "commands/shared_arguments.hpp"
#include "engine/working_set.hpp"
#include "homes/homes.hpp"
#include "measure/machine_meter.hpp"
#include "measure/working_set_size.hpp"
#include "text/statistics.hpp"
#include "text/table.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

constexpr int kDefaultRounds = 5;
constexpr int kSamplesPerRound = 3;

CommandSpec spec() {
  return {
      "bench", "bench [--threads LIST] [--params N] [--format text|json]",
      "Runs the production Adam step beside the roofline loop (same 4 reads and 3 writes) and prints both.",
      with_machine_options({
          {"threads", 't', "LIST",
           "pool sizes, one thread per core (default: 1, 2, 4, … and all cores; e.g. 1,2)"},
          {"params", 'p', "COUNT",
           "fp32 parameters to step over, 16 bytes each (default: over 1 GiB and four times the caches; e.g. "
           "128M)"},
          {"rounds", 'r', "N", "visits of every pool size, in turn (default: 5)"},
          format_option(),
      })};
}

/// One pool size, and all pairs that were measured for it.
struct Row {
  Split split;
  std::vector<SplitSample> samples;
  int threads() const { return static_cast<int>(split.ranks.front().pool.size()); }
};

/// A pool of the first `threads` cores, one PU each: nothing else runs, so training has nothing to keep.
Split pool_of(const Home& home, int threads) {
  RankSplit rank;
  for (int core = 0; core < threads; ++core) {
    rank.pool.push_back(home.cores[static_cast<std::size_t>(core)].cpus.first());
  }
  rank.optimizer = CpuSet(rank.pool);
  rank.pool_cores = threads;
  rank.mems = home.mems;
  return {{threads, 1, Placement::compact}, fmt::format("{} threads", threads), {rank}};
}

std::vector<int> thread_counts(const Arguments& arguments, int cores) {
  if (const auto given = arguments.text("threads")) {
    const auto counts = parse_counts(*given, "zf-tune bench: --threads");
    for (const int count : counts) {
      if (count <= cores) continue;
      throw Error(Exit::infeasible,
                  fmt::format("zf-tune bench: --threads: {} threads on {} allowed cores", count, cores),
                  fmt::format("ask for {} at the most", cores));
    }
    return counts;
  }
  std::vector<int> counts;
  for (int count = 1; count < cores; count *= 2) counts.push_back(count);
  counts.push_back(cores);
  return counts;
}

struct Figures {
  double step_bytes_per_s;
  double roofline_bytes_per_s;
  double ratio;   ///< median of pairs
  double spread;  ///< of the ratio
};

Figures figures_of(const Row& row, std::uint64_t elements) {
  std::vector<double> steps;
  std::vector<double> rooflines;
  std::vector<double> ratios;
  const auto bytes = static_cast<double>(elements * kAdamBytesPerParam);
  for (const SplitSample& sample : row.samples) {
    steps.push_back(bytes / static_cast<double>(sample.step_ns) * 1e9);
    rooflines.push_back(bytes / static_cast<double>(sample.roofline_ns) * 1e9);
    ratios.push_back(static_cast<double>(sample.roofline_ns) / static_cast<double>(sample.step_ns));
  }
  return {median(steps), median(rooflines), median(ratios), relative_spread(ratios)};
}

std::string as_text(const std::vector<Row>& rows, std::uint64_t elements, std::string_view isa) {
  std::string text =
      fmt::format("fp32 AdamW step and roofline loop, {} parameters ({}), {} kernels\n\n",
                  print_quantity(elements), print_bytes(elements * WorkingSet::kBytesPerElement), isa);
  Table table({{"threads"},
               {"CPUs", Table::Align::left},
               {"step GB/s"},
               {"roofline GB/s"},
               {"ratio"},
               {"spread"},
               {"pairs"}});
  for (const Row& row : rows) {
    const Figures figures = figures_of(row, elements);
    table.add({std::to_string(row.threads()), print(row.split.ranks.front().optimizer),
               fmt::format("{:.2f}", figures.step_bytes_per_s / 1e9),
               fmt::format("{:.2f}", figures.roofline_bytes_per_s / 1e9),
               fmt::format("{:.3f}", figures.ratio), fmt::format("{:.1f} %", 100 * figures.spread),
               std::to_string(row.samples.size())});
  }
  return text + table.print();
}

std::string as_json(const std::vector<Row>& rows, std::uint64_t elements, const std::string& isa) {
  nlohmann::ordered_json document{
      {"params", elements}, {"isa", isa}, {"pools", nlohmann::ordered_json::array()}};
  for (const Row& row : rows) {
    const Figures figures = figures_of(row, elements);
    nlohmann::ordered_json samples = nlohmann::ordered_json::array();
    for (const SplitSample& sample : row.samples) {
      samples.push_back({{"step_ns", sample.step_ns}, {"roofline_ns", sample.roofline_ns}});
    }
    document["pools"].push_back({{"threads", row.threads()},
                                 {"cpus", print(row.split.ranks.front().optimizer)},
                                 {"step_bytes_per_s_median", figures.step_bytes_per_s},
                                 {"roofline_bytes_per_s_median", figures.roofline_bytes_per_s},
                                 {"ratio_median", figures.ratio},
                                 {"ratio_spread", figures.spread},
                                 {"samples", samples}});
  }
  return document.dump(2) + "\n";
}

Exit run(const Arguments& arguments) {
  const Format format = format_argument(arguments);
  const Machine machine = read_machine(machine_source(arguments));
  if (!machine.topology.is_this_machine) {
    throw Error(Exit::usage,
                fmt::format("{} is not this machine: nothing can be measured on it", machine.topology.source),
                "leave --topology and --sysroot out");
  }
  const Home home = homes_of(machine.topology, machine.allowed, {Preference{}}).front();
  const std::uint64_t available = available_memory_bytes(SysRoot(), machine.allowed);
  std::uint64_t elements =
      working_set_size(0, 1, last_level_cache_bytes(machine.topology), available).elements_per_rank;
  if (const auto params = arguments.text("params")) {
    elements = parse_quantity(*params, "zf-tune bench: --params");
    if (elements > available / WorkingSet::kBytesPerElement) {
      throw Error(
          Exit::infeasible,
          fmt::format("zf-tune bench: --params: {} parameters take {} of memory, and {} are available",
                      *params, print_bytes(elements * WorkingSet::kBytesPerElement), print_bytes(available)),
          "ask for fewer");
    }
  }

  std::vector<Row> rows;
  for (const int count : thread_counts(arguments, static_cast<int>(home.cores.size()))) {
    rows.push_back({pool_of(home, count), {}});
  }
  MachineMeter meter({elements, {}, 1, chosen_isa()}, 1);
  const int rounds = arguments.integer("rounds", 1, 1000).value_or(kDefaultRounds);
  for (int round = 0; round < rounds; ++round) {
    for (Row& row : rows) {
      for (const SplitSample& sample : meter.measure(row.split, kSamplesPerRound, INT64_MAX))
        row.samples.push_back(sample);
    }
  }
  fmt::print("{}", format == Format::json ? as_json(rows, elements, meter.isa())
                                          : as_text(rows, elements, meter.isa()));
  return Exit::done;
}

}  // namespace

Command bench_command() { return {spec(), run}; }

}  // namespace zf
