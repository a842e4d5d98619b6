// Measures an optimizer update of one model by several ranks at once, bound and unbound, for `zf-tune bench
// --ranks`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "homes/split.hpp"
#include "machine/memory_modules.hpp"
#include "measure/bench.hpp"
#include "text/table.hpp"

namespace zf {

/// One binding of one number of ranks. A sample's times are those of the slowest rank.
struct RankBenchRow {
  int ranks = 0;
  std::string binding;         ///< "homes" or "unbound"
  int threads = 0;             ///< of all ranks together
  std::uint64_t elements = 0;  ///< parameters of all ranks together
  std::vector<SplitSample> samples;
};

struct RankBench {
  std::uint64_t params = 0;  ///< of the model; a row has up to one parameter per rank less
  std::string isa;
  std::vector<RankBenchRow> rows;
  NominalBandwidth nominal = {};           ///< of the whole machine; run_rank_bench() does not set it
  std::vector<Neighbour> neighbours = {};  ///< on the CPUs of the ranks; nor these
  StateFormat format = StateFormat::fp32;  ///< of the step
};

/// Returns what is measured for so many ranks, by the names of the rows: the whole home of each rank, then
/// unbound.
std::vector<std::pair<std::string, Split>> rank_splits(const std::vector<Home>& homes);

/// Steps over `params` parameters, cut into equal parts for the ranks of each split, one process per
/// rank, with all splits in turn, round after round. Ends early once `stop` returns true, and leaves out
/// splits without a sample then. Throws Error(runtime_error) if a split cannot be set up. Call it while this
/// process has one thread.
RankBench run_rank_bench(const std::vector<std::pair<std::string, Split>>& splits, std::uint64_t params,
                         int rounds, StateFormat format, const std::function<bool()>& stop);

/// Return the table, and the document of --format json with every sample. Times and bandwidths are medians.
/// Both have the share of the nominal bandwidth if that is known; else the table says why it is not. The
/// nominal figure is an upper bound, so the share is a lower one. If it is above 100 %, the parameters fit
/// in the caches, or the firmware does not tell the truth. Rows that are disturbed are marked in both.
std::string rank_bench_text(const RankBench& bench, std::size_t width = kUnlimitedWidth);
std::string rank_bench_json(const RankBench& bench);

}  // namespace zf
