#include "measure/bench.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/step_types.hpp"
#include "compare/statistics.hpp"
#include "engine/working_set.hpp"
#include "measure/machine_meter.hpp"
#include "measure/neighbours_json.hpp"
#include "plan/json_fields.hpp"
#include "text/table.hpp"
#include "text/units.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

constexpr int kSamplesPerRound = 3;

struct RowSummary {
  double step_bytes_per_s;
  double roofline_bytes_per_s;
  double ratio;   ///< of the bandwidths, median of pairs
  double spread;  ///< of the ratio
  bool disturbed;
};

RowSummary summary_of(const BenchRow& row, std::uint64_t elements, StateFormat format) {
  std::vector<double> steps;
  std::vector<double> rooflines;
  std::vector<double> ratios;
  const auto bytes = static_cast<double>(elements * measured_step_bytes(format));
  for (const SplitSample& sample : row.samples) {
    steps.push_back(bytes / static_cast<double>(sample.step_ns) * 1e9);
    rooflines.push_back(bytes / static_cast<double>(sample.roofline_ns) * 1e9);
    ratios.push_back(steps.back() / rooflines.back());
  }
  const double ratio = median(ratios);
  const double spread = relative_spread(ratios);
  return {median(steps), median(rooflines), ratio, spread, is_disturbed(ratio, spread)};
}

}  // namespace

Split pools_on(const std::vector<Home>& homes, int threads) {
  Split split{{threads, 1, Placement::compact}, print_count(threads, "thread"), {}};
  for (const Home& home : homes) {
    RankSplit& rank = split.ranks.emplace_back();
    const auto cores = std::min(static_cast<std::size_t>(threads), home.cores.size());
    for (std::size_t core = 0; core < cores; ++core) rank.pool.push_back(home.cores[core].cpus.first());
    rank.floats = !home.shared_cpus.empty();
    rank.optimizer = rank.floats ? home.shared_cpus : CpuSet(rank.pool);
    rank.pool_cores = static_cast<int>(cores);
    rank.mems = home.mems;
  }
  return split;
}

std::vector<int> usual_thread_counts(int cores) {
  std::vector<int> counts;
  for (int count = 1; count < cores; count *= 2) counts.push_back(count);
  counts.push_back(cores);
  return counts;
}

Bench run_bench(const Home& home, const std::vector<int>& threads, std::uint64_t elements, int rounds,
                StateFormat format, const std::function<bool()>& stop) {
  MachineMeter meter(
      {.elements = elements, .isa = chosen_isa(), .roofline_each_round = true, .format = format}, 1);
  Bench bench{elements, meter.isa(), {}, {}, format};
  std::vector<Split> splits;
  for (const int count : threads) {
    splits.push_back(pools_on({home}, count));
    bench.rows.push_back({count, splits.back().ranks.front().optimizer, {}});
  }
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < splits.size() && !stop(); ++i) {
      for (const SplitSample& sample :
           meter.measure(splits[i], {.samples = kSamplesPerRound, .stop = stop})) {
        bench.rows[i].samples.push_back(sample);
      }
    }
  }
  std::erase_if(bench.rows, [](const BenchRow& row) { return row.samples.empty(); });
  return bench;
}

std::string bench_text(const Bench& bench, std::size_t width) {
  std::string text = hanging(
      "",
      format_text("AdamW step (state {}, {} bytes per parameter) and roofline loop, {} parameters "
                  "({}), {} kernels",
                  name_of(bench.format), measured_step_bytes(bench.format), print_quantity(bench.elements),
                  print_bytes(bench.elements * WorkingSet::bytes_per_element(bench.format)), bench.isa),
      width);
  Table table({{"threads"},
               {"CPUs", Table::Align::left},
               {"step GB/s"},
               {"roofline GB/s"},
               {"ratio"},
               {"spread"},
               {"pairs"},
               {"", Table::Align::left}});
  bool disturbed = false;
  for (const BenchRow& row : bench.rows) {
    const RowSummary summary = summary_of(row, bench.elements, bench.format);
    table.add({std::to_string(row.threads), print(row.cpus),
               format_text("{:.2f}", summary.step_bytes_per_s / 1e9),
               format_text("{:.2f}", summary.roofline_bytes_per_s / 1e9),
               format_text("{:.3f}", summary.ratio), format_text("{:.1f} %", 100 * summary.spread),
               std::to_string(row.samples.size()), summary.disturbed ? kDisturbedMark : ""});
    disturbed = disturbed || summary.disturbed;
  }
  text += "\n" + table.print(width);
  return disturbed ? text + "\n" + disturbance_in_words(bench.neighbours, width) : text;
}

std::string bench_json(const Bench& bench) {
  nlohmann::ordered_json document{{"params", bench.elements},
                                  {"isa", bench.isa},
                                  {"state_format", name_of(bench.format)},
                                  {"step_bytes_per_param", measured_step_bytes(bench.format)},
                                  {"neighbours", neighbours_json(bench.neighbours)},
                                  {"pools", nlohmann::ordered_json::array()}};
  for (const BenchRow& row : bench.rows) {
    const RowSummary summary = summary_of(row, bench.elements, bench.format);
    nlohmann::ordered_json samples = nlohmann::ordered_json::array();
    for (const SplitSample& sample : row.samples) {
      samples.push_back({{"step_ns", sample.step_ns}, {"roofline_ns", sample.roofline_ns}});
    }
    document["pools"].push_back({{"threads", row.threads},
                                 {"cpus", print(row.cpus)},
                                 {"step_bytes_per_s_median", summary.step_bytes_per_s},
                                 {"roofline_bytes_per_s_median", summary.roofline_bytes_per_s},
                                 {"ratio_median", summary.ratio},
                                 {"ratio_spread", summary.spread},
                                 {"disturbed", summary.disturbed},
                                 {"samples", samples}});
  }
  return print_json(document);
}

}  // namespace zf
