// Measures what the choice loses on machines, and if jobs differ in ways, by which no constant was chosen.
// Committed before the first result of the rule that it judges. Prints a table. Usage: hold_out SEEDS
// [GENERATED]

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/format.hpp"
#include "compare/statistics.hpp"
#include "os/standard_streams.hpp"
#include "study.hpp"
#include "text/table.hpp"

namespace zf {
namespace {

constexpr std::uint64_t kGenerator = 39'20261126;  // of no other study
constexpr double kFactors[] = {0.5, 0.8, 1.25, 2};
constexpr Mode kModes[] = {Mode::overlap, Mode::backward, Mode::exact, Mode::wait};
constexpr int kIntervals[] = {1, 2, 8};

/// A kind of machines, and what was seen on them.
struct Group {
  std::string name;
  std::vector<Case> cases;
  std::vector<double> regrets = {};
  std::vector<double> losses = {};  ///< if the job differs from its workload
  std::vector<double> find = {};
};

/// Returns the jobs that the case could turn out to be: training or the step 1.25 times or twice as long, or
/// as short.
std::vector<Trialed> other_jobs(const Case& one) {
  std::vector<Trialed> jobs;
  for (const double factor : kFactors) {
    Case training = one;
    training.workload.training->gpu_ns =
        std::llround(factor * static_cast<double>(one.workload.training->gpu_ns));
    jobs.emplace_back(training);
    Case step = one;
    step.workload.params = static_cast<std::uint64_t>(factor * static_cast<double>(one.workload.params));
    jobs.emplace_back(step);
  }
  return jobs;
}

Group measured(Group group, int seeds) {
  std::vector<Group> parts(group.cases.size());
  for_each_index(group.cases.size(), [&](std::size_t i) {
    for (const Mode mode : kModes) {
      for (const int interval : kIntervals) {
        const Case here = in_mode(group.cases[i], mode, interval);
        const Trialed trialed(here);
        const std::vector<Trialed> others = other_jobs(here);
        for (int seed = 1; seed <= seeds; ++seed) {
          const Swept found = swept(trialed, seed);
          parts[i].regrets.push_back(trialed.regret_of(found.chosen()));
          parts[i].find.push_back(found.find_visits);
          for (const Trialed& other : others) parts[i].losses.push_back(other.regret_of(found.chosen()));
        }
      }
    }
  });
  for (const Group& part : parts) {
    group.regrets.insert(group.regrets.end(), part.regrets.begin(), part.regrets.end());
    group.losses.insert(group.losses.end(), part.losses.begin(), part.losses.end());
    group.find.insert(group.find.end(), part.find.begin(), part.find.end());
  }
  return group;
}

std::vector<Group> groups_of(int generated) {
  const std::vector<Case> calm = generated_cases(generated, kGenerator);
  std::vector<Group> groups = {{"as generated", calm}};
  for (const Tails& tails : kTails) {
    Group group{format_text("{:.0f} % x {:g}, {}", 100 * tails.rate, tails.factor,
                            tails.is_common ? "both sides at once" : "each side"),
                {}};
    // Every fourth machine: four kinds of tails together are as many as the calm ones.
    for (std::size_t i = 0; i < calm.size(); i += 4) group.cases.push_back(with_tails(calm[i], tails));
    group.cases.push_back(with_tails(large_case(), tails));
    groups.push_back(std::move(group));
  }
  return groups;
}

int run(int seeds, int generated) {
  using enum Table::Align;
  Table table({{"machines", left},
               {"number"},
               {"regret p50"},
               {"p95"},
               {"max"},
               {"loss if the job differs, mean"},
               {"p95"},
               {"max"},
               {"visits p50"},
               {"p95"}});
  const auto percent = [](double value) { return format_text("{:.2f} %", 100 * value); };
  for (Group& group : groups_of(generated)) {
    const Group seen = measured(std::move(group), seeds);
    const double mean = std::accumulate(seen.losses.begin(), seen.losses.end(), 0.0) /
                        static_cast<double>(seen.losses.size());
    table.add({seen.name, std::to_string(seen.cases.size()), percent(median(seen.regrets)),
               percent(quantile(seen.regrets, 0.95)), percent(quantile(seen.regrets, 1)), percent(mean),
               percent(quantile(seen.losses, 0.95)), percent(quantile(seen.losses, 1)),
               format_text("{:.0f}", median(seen.find)), format_text("{:.0f}", quantile(seen.find, 0.95))});
  }
  print_stdout("4 modes, update intervals 1, 2 and 8, {} seeds, 8 ways to differ from the workload\n\n{}",
               seeds, table.print());
  return 0;
}

int number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= 1) return value;
  throw Error(Exit::usage, format_text("\"{}\" is not a number above 0", text),
              "usage: hold_out SEEDS [GENERATED]");
}

}  // namespace
}  // namespace zf

int main(int argc, char** argv) {
  try {
    return zf::run(argc > 1 ? zf::number(argv[1]) : 5, argc > 2 ? zf::number(argv[2]) : 200);
  } catch (const zf::Error& error) {
    zf::print_stderr("hold_out: {}\n", error.what());
    return static_cast<int>(error.exit());
  }
}
