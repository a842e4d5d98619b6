#include "measure/bench_ranks.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
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

constexpr int kRankSamplesPerRound = 3;

struct RankSummary {
  double step_ns;
  double spread;  ///< of the step
  double step_bytes_per_s;
  double roofline_bytes_per_s;
  double ratio;  ///< of the bandwidths, median of pairs
  bool disturbed;
};

RankSummary summary_of(const RankBenchRow& row, StateFormat format) {
  std::vector<double> steps;
  std::vector<double> rooflines;
  std::vector<double> ratios;
  for (const SplitSample& sample : row.samples) {
    steps.push_back(static_cast<double>(sample.step_ns));
    rooflines.push_back(static_cast<double>(sample.roofline_ns));
    ratios.push_back(rooflines.back() / steps.back());
  }
  const auto bytes = 1e9 * static_cast<double>(row.elements * measured_step_bytes(format));
  const double spread = relative_spread(steps);
  const double ratio = median(ratios);
  return {median(steps),
          spread,
          bytes / median(steps),
          bytes / median(rooflines),
          ratio,
          is_disturbed(ratio, spread)};
}

std::string nominal_in_words(const NominalBandwidth& nominal) {
  if (!nominal.bytes_per_s) return "unknown, because " + nominal.unknown_because;
  return format_text(
      "at most {:.2f} GB/s for the whole machine ({}), if every module has a channel of its own",
      *nominal.bytes_per_s / 1e9, print_count(nominal.modules, "module"));
}

std::string share_in_words(double share) {
  return share > 1 ? "over 100 %" : format_text(">= {:.1f} %", 100 * share);
}

}  // namespace

std::vector<std::pair<std::string, Split>> rank_splits(const std::vector<Home>& homes) {
  std::size_t most = 0;
  for (const Home& home : homes) most = std::max(most, home.cores.size());
  return {{"homes", pools_on(homes, static_cast<int>(most))},
          {"unbound", split_of(homes, control_shape(Control::unbound))}};
}

RankBench run_rank_bench(const std::vector<std::pair<std::string, Split>>& splits, std::uint64_t params,
                         int rounds, StateFormat format, const std::function<bool()>& stop) {
  for (const auto& [binding, split] : splits) {
    if (params >= split.ranks.size()) continue;
    throw Error(
        Exit::usage,
        format_text("zf-tune bench: --params {}: {} ranks need a parameter each", params, split.ranks.size()),
        "give more parameters");
  }
  RankBench bench{params, "", {}, {}, {}, format};
  for (const auto& [binding, split] : splits) {
    RankBenchRow& row = bench.rows.emplace_back();
    row.ranks = static_cast<int>(split.ranks.size());
    row.binding = binding;
    row.elements = params / split.ranks.size() * split.ranks.size();
    for (const RankSplit& rank : split.ranks) row.threads += static_cast<int>(rank.pool.size());
  }
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < splits.size() && !stop(); ++i) {
      const Split& split = splits[i].second;
      const RankWork work{.elements = params / split.ranks.size(),
                          .isa = chosen_isa(),
                          .roofline_each_round = true,
                          .format = format};
      MachineMeter meter(work, 1);
      bench.isa = meter.isa();
      for (const SplitSample& sample : meter.measure(split, {.samples = kRankSamplesPerRound, .stop = stop}))
        bench.rows[i].samples.push_back(sample);
    }
  }
  std::erase_if(bench.rows, [](const RankBenchRow& row) { return row.samples.empty(); });
  return bench;
}

std::string rank_bench_text(const RankBench& bench, std::size_t width) {
  std::string text =
      wrapped(format_text("AdamW update (state {}) of {} parameters ({}), {} kernels, all ranks at once\n"
                          "nominal memory bandwidth: {}\n",
                          name_of(bench.format), print_quantity(bench.params),
                          print_bytes(bench.params * WorkingSet::bytes_per_element(bench.format)), bench.isa,
                          nominal_in_words(bench.nominal)),
              width);
  std::vector<Table::Column> columns{{"ranks"},
                                     {"bound by", Table::Align::left},
                                     {"threads"},
                                     {"slowest rank"},
                                     {"spread", Table::Align::right, Table::Need::detail},
                                     {"GB/s"},
                                     {"roofline GB/s"},
                                     {"ratio"}};
  if (bench.nominal.bytes_per_s) columns.push_back({"nominal"});
  columns.push_back({"", Table::Align::left});
  bool disturbed = false;
  Table table(std::move(columns));
  for (const RankBenchRow& row : bench.rows) {
    const RankSummary summary = summary_of(row, bench.format);
    std::vector<std::string> cells{std::to_string(row.ranks),
                                   row.binding,
                                   std::to_string(row.threads),
                                   print_duration(static_cast<Nanoseconds>(summary.step_ns)),
                                   format_text("{:.1f} %", 100 * summary.spread),
                                   format_text("{:.2f}", summary.step_bytes_per_s / 1e9),
                                   format_text("{:.2f}", summary.roofline_bytes_per_s / 1e9),
                                   format_text("{:.3f}", summary.ratio)};
    if (bench.nominal.bytes_per_s)
      cells.push_back(share_in_words(summary.step_bytes_per_s / *bench.nominal.bytes_per_s));
    cells.emplace_back(summary.disturbed ? kDisturbedMark : "");
    disturbed = disturbed || summary.disturbed;
    table.add(std::move(cells));
  }
  text += "\n" + table.print(width);
  return disturbed ? text + "\n" + disturbance_in_words(bench.neighbours, width) : text;
}

std::string rank_bench_json(const RankBench& bench) {
  Object document{{"params", bench.params},
                  {"isa", bench.isa},
                  {"state_format", name_of(bench.format)},
                  {"step_bytes_per_param", measured_step_bytes(bench.format)},
                  {"neighbours", neighbours_json(bench.neighbours)}};
  if (bench.nominal.bytes_per_s) {
    document["nominal_bytes_per_s"] = *bench.nominal.bytes_per_s;
  } else {
    document["nominal_unknown_because"] = bench.nominal.unknown_because;
  }
  document["rows"] = Object::array();
  for (const RankBenchRow& row : bench.rows) {
    const RankSummary summary = summary_of(row, bench.format);
    Object samples = Object::array();
    for (const SplitSample& sample : row.samples)
      samples.push_back({{"step_ns", sample.step_ns}, {"roofline_ns", sample.roofline_ns}});
    Object& shown =
        document["rows"].emplace_back(Object{{"ranks", row.ranks},
                                             {"binding", row.binding},
                                             {"threads", row.threads},
                                             {"params", row.elements},
                                             {"step_ns_median", summary.step_ns},
                                             {"step_spread", summary.spread},
                                             {"step_bytes_per_s_median", summary.step_bytes_per_s},
                                             {"roofline_bytes_per_s_median", summary.roofline_bytes_per_s},
                                             {"ratio_median", summary.ratio},
                                             {"disturbed", summary.disturbed},
                                             {"samples", samples}});
    if (bench.nominal.bytes_per_s)
      shown["nominal_share"] = summary.step_bytes_per_s / *bench.nominal.bytes_per_s;
  }
  return print_json(document);
}

}  // namespace zf
