// Measures the production Adam step and the roofline loop, for `zf-tune bench`: pools of several sizes, or
// several ranks that update one model at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/state_format.hpp"
#include "homes/homes.hpp"
#include "homes/split.hpp"
#include "measure/disturbance.hpp"
#include "plan/evidence.hpp"
#include "text/table.hpp"

namespace zf {

/// One split, and all pairs of step and roofline loop that were measured for it.
struct BenchRow {
  int threads = 0;  ///< of all ranks together
  CpuSet cpus;
  std::vector<SplitSample> samples;  ///< of the slowest rank
  int ranks = 1;
  std::string binding = {};    ///< of several ranks: "homes" or "unbound"
  std::uint64_t elements = 0;  ///< parameters of all ranks together
};

struct Bench {
  std::uint64_t params = 0;  ///< of the model; a row has up to one parameter per rank less
  std::string isa;
  std::vector<BenchRow> rows;
  std::vector<Neighbour> neighbours = {};  ///< on the CPUs of the rows; run_bench() does not set them
  StateFormat format = StateFormat::fp32;  ///< of the step
  bool of_ranks = false;                   ///< the rows are ranks, not pools
};

/// The splits to measure, and what the binding of each is called.
using BoundSplits = std::vector<std::pair<std::string, Split>>;

/// Returns the pool sizes that are measured unless the user names some: 1, 2, 4, … and all cores.
std::vector<int> usual_thread_counts(int cores);

/// Returns a split with pools of the first `threads` cores of each home, one PU each, or all of its cores
/// if it has fewer. Nothing else runs: training gets none.
Split pools_on(const std::vector<Home>& homes, int threads);

/// Returns what is measured for as many ranks as there are homes: the whole home of each, then unbound.
BoundSplits rank_splits(const std::vector<Home>& homes);

/// Steps over `params` parameters, cut into equal parts for the ranks of each split, one process per rank,
/// with all splits in turn, round after round. Ends early once `stop` returns true, and leaves out splits
/// without a sample then. Throws Error(usage) if a split has more ranks than parameters, and
/// Error(runtime_error) if it cannot be set up. Call it while this process has one thread.
Bench run_bench(const BoundSplits& splits, std::uint64_t params, int rounds, StateFormat format,
                const std::function<bool()>& stop);

/// Return the table for a page of so many columns, and the document of --format json with every sample. Times
/// and bandwidths are medians. Rows that are disturbed (disturbance.hpp) are marked in both.
std::string bench_text(const Bench& bench, std::size_t width = kUnlimitedWidth);
std::string bench_json(const Bench& bench);

}  // namespace zf
