#include "commands/progress.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/format.hpp"
#include "commands/terminal.hpp"
#include "os/standard_streams.hpp"
#include "text/units.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

std::string best_so_far(const SweepProgress& progress) {
  return format_text("best {}: {}, spread {:.1f} %", progress.best->label,
                     print_duration(progress.best->period_ns_median), 100 * progress.best->period_spread);
}

double seconds(Nanoseconds ns) { return static_cast<double>(ns) / static_cast<double>(kSecondNs); }

}  // namespace

std::string progress_line(const SweepProgress& progress, std::size_t width) {
  const Nanoseconds left = std::max<Nanoseconds>(0, progress.budget_ns - progress.elapsed_ns);
  std::string line =
      format_text("{} {}/{}: {} | {} | at most {:.0f} s left", name_of(progress.phase), progress.visit,
                  progress.round_size, progress.visited->label, best_so_far(progress), seconds(left));
  if (width != 0 && line.size() > width) line.resize(width);
  return line;
}

ProgressDisplay::ProgressDisplay(bool quiet)
    : mode_(quiet                          ? Mode::silent
            : ::isatty(STDERR_FILENO) == 1 ? Mode::live
                                           : Mode::plain) {
  if (mode_ == Mode::live) print_stderr("measuring the first split…");
}

void ProgressDisplay::clear() {
  if (mode_ == Mode::live) print_stderr("\r\x1b[K");
  mode_ = Mode::silent;
}

void ProgressDisplay::show(const SweepProgress& progress) const {
  if (mode_ == Mode::live) {
    // One column is left free: a line that fills the last one would scroll.
    print_stderr("\r\x1b[K{}", progress_line(progress, terminal_columns(STDERR_FILENO) - 1));
  } else if (mode_ == Mode::plain && progress.visit == progress.round_size) {
    const Nanoseconds left = std::max<Nanoseconds>(0, progress.budget_ns - progress.elapsed_ns);
    const std::string splits =
        progress.round_size == 1 ? "one split" : format_text("{} splits", progress.round_size);
    const double accuracy = progress.evidence->accuracy_reached;
    const std::string known =
        accuracy < 1 ? format_text("; differences known to {:.1f} %", 100 * accuracy) : "";
    const std::string text =
        format_text("round {}, {} {}: {}{}; at most {:.0f} s left", progress.round + 1,
                    name_of(progress.phase), splits, best_so_far(progress), known, seconds(left));
    print_stderr("{}", hanging(format_text("[{:>5.1f} s] ", seconds(progress.elapsed_ns)), text,
                               terminal_columns(STDERR_FILENO)));
  }
}

}  // namespace zf
