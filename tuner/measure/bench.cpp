#include "measure/bench.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/step_types.hpp"
#include "compare/statistics.hpp"
#include "engine/working_set.hpp"
#include "measure/machine_meter.hpp"
#include "plan/json_fields.hpp"
#include "text/table.hpp"
#include "text/units.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

constexpr int kSamplesPerRound = 3;

struct RowSummary {
  const BenchRow* row;
  double step_ns;
  double step_bytes_per_s;
  double roofline_bytes_per_s;
  double ratio;   ///< of the bandwidths, median of pairs
  double spread;  ///< of a pool's ratio, or of the step of several ranks
  bool disturbed;
};

/// Returns a summary of each row.
std::vector<RowSummary> summaries_of(const Bench& bench) {
  std::vector<RowSummary> summaries;
  for (const BenchRow& row : bench.rows) {
    std::vector<double> steps;
    std::vector<double> rooflines;
    std::vector<double> ratios;
    for (const SplitSample& sample : row.samples) {
      steps.push_back(static_cast<double>(sample.step_ns));
      rooflines.push_back(static_cast<double>(sample.roofline_ns));
      ratios.push_back(rooflines.back() / steps.back());
    }
    const auto bytes = 1e9 * static_cast<double>(row.elements * measured_step_bytes(bench.format));
    const double ratio = median(ratios);
    const double spread = relative_spread(bench.of_ranks ? steps : ratios);
    summaries.push_back({&row, median(steps), bytes / median(steps), bytes / median(rooflines), ratio, spread,
                         is_disturbed(ratio, spread)});
  }
  return summaries;
}

std::string head_of(const Bench& bench) {
  const std::string params =
      format_text("{} parameters ({}), {} kernels", print_quantity(bench.params),
                  print_bytes(bench.params * WorkingSet::bytes_per_element(bench.format)), bench.isa);
  if (bench.of_ranks)
    return format_text("AdamW update (state {}) of {}, all ranks at once", name_of(bench.format), params);
  return format_text("AdamW step (state {}, {} bytes per parameter) and roofline loop, {}",
                     name_of(bench.format), measured_step_bytes(bench.format), params);
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

BoundSplits rank_splits(const std::vector<Home>& homes) {
  std::size_t most = 0;
  for (const Home& home : homes) most = std::max(most, home.cores.size());
  return {{"homes", pools_on(homes, static_cast<int>(most))},
          {"unbound", split_of(homes, control_shape(Control::unbound))}};
}

Bench run_bench(const BoundSplits& splits, std::uint64_t params, int rounds, StateFormat format,
                const std::function<bool()>& stop) {
  Bench bench{params, std::string(name_of(chosen_isa())), {}, {}, format};
  for (const auto& [binding, split] : splits) {
    if (params < split.ranks.size()) {
      throw Error(Exit::usage,
                  format_text("zf-tune bench: --params {}: {} ranks need a parameter each", params,
                              split.ranks.size()),
                  "give more parameters");
    }
    BenchRow& row = bench.rows.emplace_back();
    row.ranks = static_cast<int>(split.ranks.size());
    row.binding = binding;
    row.elements = params / split.ranks.size() * split.ranks.size();
    for (const RankSplit& rank : split.ranks) {
      row.threads += static_cast<int>(rank.pool.size());
      row.cpus |= rank.optimizer;
    }
  }
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < splits.size() && !stop(); ++i) {
      const Split& split = splits[i].second;
      const RankWork work{.elements = params / split.ranks.size(),
                          .isa = chosen_isa(),
                          .roofline_each_round = true,
                          .format = format};
      MachineMeter meter(work, 1);
      for (const SplitSample& sample : meter.measure(split, {.samples = kSamplesPerRound, .stop = stop}))
        bench.rows[i].samples.push_back(sample);
    }
  }
  std::erase_if(bench.rows, [](const BenchRow& row) { return row.samples.empty(); });
  return bench;
}

std::string bench_text(const Bench& bench, std::size_t width) {
  using enum Table::Align;
  using One = const RowSummary&;
  const bool of_ranks = bench.of_ranks;
  const auto gigabytes = [](double bytes_per_s) { return format_text("{:.2f}", bytes_per_s / 1e9); };
  const auto spread = [](One one) { return format_text("{:.1f} %", 100 * one.spread); };
  const ColumnOf<RowSummary> columns[] = {
      {{"ranks"}, [](One one) { return std::to_string(one.row->ranks); }, of_ranks},
      {{"bound by", left}, [](One one) { return one.row->binding; }, of_ranks},
      {{"threads"}, [](One one) { return std::to_string(one.row->threads); }},
      {{"CPUs", left}, [](One one) { return print(one.row->cpus); }, !of_ranks},
      {{"slowest rank"},
       [](One one) { return print_duration(static_cast<Nanoseconds>(one.step_ns)); },
       of_ranks},
      {{"spread", right, Table::Need::detail}, spread, of_ranks},
      {{of_ranks ? "GB/s" : "step GB/s"}, [&](One one) { return gigabytes(one.step_bytes_per_s); }},
      {{"roofline GB/s"}, [&](One one) { return gigabytes(one.roofline_bytes_per_s); }},
      {{"ratio"}, [](One one) { return format_text("{:.3f}", one.ratio); }},
      {{"spread"}, spread, !of_ranks},
      {{"pairs"}, [](One one) { return std::to_string(one.row->samples.size()); }, !of_ranks},
      {{"", left}, [](One one) { return one.disturbed ? kDisturbedMark : ""; }},
  };
  const auto rows = summaries_of(bench);
  const std::string text =
      hanging("", head_of(bench), width) + "\n" + table_of<RowSummary>(columns, rows).print(width);
  if (std::ranges::none_of(rows, &RowSummary::disturbed)) return text;
  return text + "\n" + disturbance_in_words(bench.neighbours, width);
}

std::string bench_json(const Bench& bench) {
  Object document{{"params", bench.params},
                  {"isa", bench.isa},
                  {"state_format", name_of(bench.format)},
                  {"step_bytes_per_param", measured_step_bytes(bench.format)},
                  {"neighbours", Object::array()}};
  for (const Neighbour& one : bench.neighbours)
    document["neighbours"].push_back({{"process", one.process}, {"pid", one.pid}, {"cpus", one.cpus}});
  Object& rows = document[bench.of_ranks ? "rows" : "pools"] = Object::array();
  for (const RowSummary& summary : summaries_of(bench)) {
    const BenchRow& row = *summary.row;
    Object& shown = rows.emplace_back();
    if (bench.of_ranks) shown = {{"ranks", row.ranks}, {"binding", row.binding}};
    shown["threads"] = row.threads;
    if (bench.of_ranks) {
      shown["params"] = row.elements;
      shown["step_ns_median"] = summary.step_ns;
      shown["step_spread"] = summary.spread;
    } else {
      shown["cpus"] = print(row.cpus);
    }
    shown["step_bytes_per_s_median"] = summary.step_bytes_per_s;
    shown["roofline_bytes_per_s_median"] = summary.roofline_bytes_per_s;
    shown["ratio_median"] = summary.ratio;
    if (!bench.of_ranks) shown["ratio_spread"] = summary.spread;
    shown["disturbed"] = summary.disturbed;
    shown["samples"] = Object::array();
    for (const SplitSample& sample : row.samples)
      shown["samples"].push_back({{"step_ns", sample.step_ns}, {"roofline_ns", sample.roofline_ns}});
  }
  return print_json(document);
}

}  // namespace zf
