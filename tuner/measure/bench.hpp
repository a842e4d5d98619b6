// Measures the production Adam step and the roofline loop for several pool sizes, for `zf-tune bench`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/state_format.hpp"
#include "homes/homes.hpp"
#include "homes/split.hpp"
#include "measure/disturbance.hpp"
#include "plan/evidence.hpp"
#include "text/table.hpp"

namespace zf {

/// One pool size, and all pairs of step and roofline loop that were measured for it.
struct BenchRow {
  int threads = 0;
  CpuSet cpus;
  std::vector<SplitSample> samples;
};

struct Bench {
  std::uint64_t elements = 0;  ///< parameters that every pool steps over, all threads together
  std::string isa;
  std::vector<BenchRow> rows;
  std::vector<Neighbour> neighbours = {};  ///< on the CPUs of the rows; run_bench() does not set them
  StateFormat format = StateFormat::fp32;  ///< of the step
};

/// Returns the pool sizes that are measured unless the user names some: 1, 2, 4, … and all cores.
std::vector<int> usual_thread_counts(int cores);

/// Returns a split with pools of the first `threads` cores of each home, one PU each, or all of its cores
/// if it has fewer. Nothing else runs: training gets none.
Split pools_on(const std::vector<Home>& homes, int threads);

/// Runs pools of the first `threads` cores of the home, one PU each, round after round in turn. Nothing else
/// runs. Ends early once `stop` returns true, and leaves out pools without a sample then. Throws
/// Error(runtime_error) if a pool cannot be set up. Call it while this process has one thread.
Bench run_bench(const Home& home, const std::vector<int>& threads, std::uint64_t elements, int rounds,
                StateFormat format, const std::function<bool()>& stop);

/// Return the table for a page of so many columns, and the document of --format json with every sample.
/// Bandwidths are medians. Rows that are disturbed (disturbance.hpp) are marked in both.
std::string bench_text(const Bench& bench, std::size_t width = kUnlimitedWidth);
std::string bench_json(const Bench& bench);

}  // namespace zf
