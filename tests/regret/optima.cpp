// Compares the best split of each machine of tests/regret/machines, found by brute force, with those in
// tests/regret/optima.txt. What the search is measured by must not change unnoticed. Exits with 1 and names
// the lines that differ; ZF_REGENERATE=1 writes the file again. Usage: optima

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/format.hpp"
#include "os/atomic_file.hpp"
#include "os/file.hpp"
#include "os/standard_streams.hpp"
#include "paths.hpp"
#include "study.hpp"
#include "text/table.hpp"

namespace zf {
namespace {

constexpr Mode kModes[] = {Mode::overlap, Mode::backward, Mode::exact, Mode::wait};
constexpr int kIntervals[] = {1, 2, 8};
const std::string kFile = std::string(kSourceDir) + "/tests/regret/optima.txt";

/// Returns the rows of one machine: the best split in each mode with each update interval.
std::vector<std::vector<std::string>> rows_of(const Case& one) {
  std::vector<std::vector<std::string>> rows;
  for (const Mode mode : kModes) {
    for (const int interval : kIntervals) {
      const Trialed trialed(in_mode(one, mode, interval));
      rows.push_back({one.name, name_of(mode), std::to_string(interval),
                      format_text("{:.3f}", trialed.best_ns / static_cast<double>(kMillisecondNs)),
                      std::to_string(trialed.periods.size()), trialed.best.label});
    }
  }
  return rows;
}

std::string optima() {
  const std::vector<Case> cases = cases_in(std::string(kSourceDir) + "/tests/regret/machines");
  std::vector<std::vector<std::vector<std::string>>> rows(cases.size());
  for_each_index(cases.size(), [&](std::size_t i) { rows[i] = rows_of(cases[i]); });
  using enum Table::Align;
  Table table({{"machine", left}, {"mode", left}, {"U"}, {"period ms"}, {"splits"}, {"best split", left}});
  for (const auto& of_machine : rows) {
    for (const auto& row : of_machine) table.add(row);
  }
  return table.print();
}

/// Prints the lines that differ. Returns how many do.
int show_differences(const std::string& expected, const std::string& found) {
  std::istringstream before(expected);
  std::istringstream after(found);
  int count = 0;
  for (std::string was, is;;) {
    const bool has_was = static_cast<bool>(std::getline(before, was));
    const bool has_is = static_cast<bool>(std::getline(after, is));
    if (!has_was && !has_is) return count;
    if (has_was == has_is && was == is) continue;
    ++count;
    if (has_was) print_stdout("- {}\n", was);
    if (has_is) print_stdout("+ {}\n", is);
  }
}

int run() {
  const std::string found = optima();
  if (std::getenv("ZF_REGENERATE") != nullptr) write_text_file_atomically(kFile, found);
  const int differ = show_differences(read_text_file(kFile), found);
  if (differ == 0) return 0;
  print_stdout(
      "{} lines of {} differ: the simulator, a machine or the splits that are compared have changed. If that "
      "is meant, run with ZF_REGENERATE=1, and look at the study again (scripts/regret).\n",
      differ, kFile);
  return 1;
}

}  // namespace
}  // namespace zf

int main() {
  try {
    return zf::run();
  } catch (const zf::Error& error) {
    zf::print_stderr("optima: {}\n", error.what());
    return static_cast<int>(error.exit());
  }
}
