// Measures how often the 95 % interval between the choice and its runner-up covers the true difference, after
// the choice was made. Prints a table, and exits with 1 if a promise is broken. Takes every setting in every
// mode, with update intervals and machines in turn; with "all", every combination. Usage: coverage RUNS [all]

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/format.hpp"
#include "compare/difference.hpp"
#include "compare/statistics.hpp"
#include "os/standard_streams.hpp"
#include "paths.hpp"
#include "search/contest.hpp"
#include "study.hpp"
#include "text/table.hpp"

namespace zf {
namespace {

constexpr double kLowest = 0.92;
constexpr double kHighest = 0.98;
constexpr double kWidest = 0.03;  // half of an interval, median, up to this visit effect
constexpr double kSmallVisitEffect = 0.01;
/// With fewer runs, chance alone moves the share by more than the promise allows.
constexpr double kChance = 3;

struct Setting {
  const char* name;
  double visit;
  double drift;
};
constexpr Setting kSettings[] = {{"visit effect 0 %", 0, 0.01},
                                 {"visit effect 1 %", 0.01, 0.01},
                                 {"visit effect 3 %", 0.03, 0.01},
                                 {"drift +10 %", 0.005, 0.1},
                                 {"drift -10 %", 0.005, -0.1}};
constexpr const char* kMachines[] = {"xeon-2x16-2gpu", "grace-hopper"};
constexpr Mode kModes[] = {Mode::overlap, Mode::backward, Mode::exact, Mode::wait};
constexpr int kIntervals[] = {1, 2, 8};

struct Result {
  int covered = 0;
  int unknown = 0;
  int runs = 0;
  std::vector<double> widths;
};

void add_run(const Trialed& trialed, int seed, Result& result, std::mutex& mutex) {
  const Swept found = swept(trialed, seed);
  const Evidence& evidence = found.result.evidence;
  const Workload& workload = trialed.job.model.workload();
  const Contest contest = contest_of(evidence, workload);
  const std::size_t winner = judge(contest).winner;
  const auto second = runner_up_of(contest, winner);
  const std::lock_guard lock(mutex);
  ++result.runs;
  if (!second) {
    ++result.unknown;
    return;
  }
  const Difference difference = contest.difference(winner, *second);
  if (!difference.is_known()) {
    ++result.unknown;
    return;
  }
  const double truth =
      trialed.period_of(found.result.splits[*second]) / trialed.period_of(found.result.splits[winner]) - 1;
  if (difference.low <= truth && truth <= difference.high) ++result.covered;
  result.widths.push_back(difference.half_width());
}

/// One combination to measure the coverage of.
struct Combination {
  Setting setting;
  Mode mode;
  int interval;
  const char* machine;
};

/// Returns all combinations; or each setting in each mode, with update intervals and machines in turn.
std::vector<Combination> combinations(bool all) {
  std::vector<Combination> result;
  std::size_t turn = 0;
  for (const Setting& setting : kSettings) {
    for (const Mode mode : kModes) {
      std::size_t of_mode = 0;
      for (const char* machine : kMachines) {
        for (const int interval : kIntervals) {
          // 5 has no divisor in common with the 6 pairs of machine and interval.
          if (all || of_mode == 5 * turn % (std::size(kMachines) * std::size(kIntervals)))
            result.push_back({setting, mode, interval, machine});
          ++of_mode;
        }
      }
      ++turn;
    }
  }
  return result;
}

Case case_of(const std::vector<Case>& cases, const Combination& combination) {
  const auto found = std::find_if(cases.begin(), cases.end(),
                                  [&](const Case& one) { return one.name == combination.machine; });
  assert(found != cases.end());
  Case one = in_mode(*found, combination.mode, combination.interval);
  one.machine.noise.visit = combination.setting.visit;
  one.machine.noise.drift = combination.setting.drift;
  return one;
}

int run(int runs, bool all) {
  using enum Table::Align;
  Table table({{"setting", left},
               {"machine", left},
               {"mode", left},
               {"U"},
               {"runs"},
               {"covered"},
               {"unknown"},
               {"half-width p50"},
               {"", left}});
  bool kept = true;
  const std::vector<Case> cases = cases_in(std::string(kSourceDir) + "/configs/machines");
  const double chance = std::max(0.0, kChance * std::sqrt(0.95 * 0.05 / runs) - (0.95 - kLowest));
  for (const Combination& combination : combinations(all)) {
    const Trialed trialed(case_of(cases, combination));
    Result result;
    std::mutex mutex;
    for_each_index(static_cast<std::size_t>(runs),
                   [&](std::size_t i) { add_run(trialed, static_cast<int>(i) + 1, result, mutex); });
    const double share = static_cast<double>(result.covered) / result.runs;
    const double width = result.widths.empty() ? 1 : median(result.widths);
    const bool good = share >= kLowest - chance && share <= kHighest + chance &&
                      (combination.setting.visit > kSmallVisitEffect || width <= kWidest);
    kept = kept && good;
    table.add({combination.setting.name, combination.machine, name_of(combination.mode),
               std::to_string(combination.interval), std::to_string(result.runs),
               format_text("{:.1f} %", 100 * share), std::to_string(result.unknown),
               format_text("{:.2f} %", 100 * width), good ? "" : "BROKEN"});
  }
  print_stdout(
      "promised: 92 to 98 % covered, and a median half-width of at most 3 % if visits differ by "
      "at most 1 %\n\n{}",
      table.print());
  return kept ? 0 : 1;
}

}  // namespace
}  // namespace zf

int main(int argc, char** argv) {
  const std::string_view text = argc > 1 ? argv[1] : "2000";
  int runs = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), runs);
  if (error != std::errc() || end != text.data() + text.size() || runs < 1) {
    zf::print_stderr("coverage: \"{}\" is not a number of runs\n", text);
    return 2;
  }
  try {
    return zf::run(runs, argc > 2 && std::string_view(argv[2]) == "all");
  } catch (const zf::Error& failure) {
    zf::print_stderr("coverage: {}\n", failure.what());
    return static_cast<int>(failure.exit());
  }
}
