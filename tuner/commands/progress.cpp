#include "commands/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/format.hpp"
#include "commands/terminal.hpp"
#include "os/standard_streams.hpp"
#include "text/units.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

double seconds(Nanoseconds ns) { return static_cast<double>(ns) / static_cast<double>(kSecondNs); }

/// Returns what follows the rest of a line: how much of the budget is left; "" without a clock.
std::string time_left(const SweepProgress& progress, std::string_view separator, Clock clock) {
  if (clock == Clock::hidden) return {};
  const Nanoseconds left = std::max<Nanoseconds>(0, progress.budget_ns - progress.elapsed_ns);
  return format_text("{}at most {:.0f} s left", separator, seconds(left));
}

std::string best_so_far(const CandidateEvidence& best) {
  return format_text("best {}: {}, spread {:.1f} %", best.label, print_duration(best.period_ns_median),
                     100 * best.period_spread);
}

}  // namespace

std::string progress_line(const SweepProgress& progress, std::size_t width, Clock clock) {
  const CandidateEvidence& best = *progress.best;
  const std::string period = print_duration(best.period_ns_median);
  const std::string visit =
      format_text("{} {}/{}", name_of(progress.phase), progress.visit, progress.round_size);
  const std::string here = format_text("{}: {}", visit, progress.visited->label);
  const std::vector<std::string> from_long_to_short{
      format_text("{} | {}", here, best_so_far(best)),
      format_text("{} | best {}: {}", here, best.label, period),
      format_text("{} | best {}: {}", visit, best.label, period),
      format_text("{} | best {}", visit, period),
      visit,
  };
  std::string line;
  for (const std::string& shorter : from_long_to_short) {
    line = shorter + time_left(progress, " | ", clock);
    if (columns_of(line) <= width) break;
  }
  return line;
}

std::string progress_of_round(const SweepProgress& progress, std::size_t width, Clock clock) {
  const std::string splits =
      progress.round_size == 1 ? "one split" : format_text("{} splits", progress.round_size);
  const double accuracy = progress.evidence->accuracy_reached;
  const std::string unseen =
      accuracy < 1 ? format_text("; differences below {:.1f} % cannot be seen yet", 100 * accuracy) : "";
  return hanging(clock == Clock::hidden ? "" : format_text("[{:>5.1f} s] ", seconds(progress.elapsed_ns)),
                 format_text("round {}, {} {}: {}{}{}", progress.round + 1, name_of(progress.phase), splits,
                             best_so_far(*progress.best), unseen, time_left(progress, "; ", clock)),
                 width);
}

ProgressDisplay::ProgressDisplay(bool quiet, Clock clock)
    : mode_(quiet                          ? Mode::silent
            : ::isatty(STDERR_FILENO) == 1 ? Mode::live
                                           : Mode::plain),
      clock_(clock) {
  if (mode_ == Mode::live) print_stderr("measuring the first split...");
}

void ProgressDisplay::clear() {
  if (mode_ == Mode::live) print_stderr("\r\x1b[K");
  mode_ = Mode::silent;
}

void ProgressDisplay::show(const SweepProgress& progress) const {
  if (mode_ == Mode::live) {
    // One column is left free: a line that fills the last one would scroll.
    print_stderr("\r\x1b[K{}", progress_line(progress, terminal_columns(STDERR_FILENO) - 1, clock_));
  } else if (mode_ == Mode::plain && progress.visit == progress.round_size) {
    print_stderr("{}", progress_of_round(progress, terminal_columns(STDERR_FILENO), clock_));
  }
}

}  // namespace zf
