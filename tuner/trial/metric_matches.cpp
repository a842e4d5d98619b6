#include "trial/metric_matches.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/format.hpp"
#include "children/child_output.hpp"
#include "text/command_line.hpp"

namespace zf {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{64} << 10;

/// Calls `each` with every line of `text`. Precondition: the last line ends in a newline.
template <class Function>
void for_each_line(std::string_view text, const Function& each) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    each(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
}

/// Removes whole lines from the front of `text`, at least kPieceBytes unless fewer are left, and returns
/// them.
std::string_view next_piece(std::string_view& text) {
  const auto end = text.find('\n', std::min(kPieceBytes, text.size() - 1));
  const std::string_view piece = text.substr(0, end + 1);
  text.remove_prefix(piece.size());
  return piece;
}

}  // namespace

MetricMatches::MetricMatches(const Metric& metric, std::chrono::milliseconds patience)
    : metric_(metric), patience_(patience) {}

void MetricMatches::add(std::string_view line) {
  line = line.substr(0, kMetricColumns);
  if (lines_.size() + line.size() >= kMaxKeptBytes) return;
  lines_ += line;
  lines_ += '\n';
  ++line_count_;
}

void MetricMatches::find(const std::function<bool()>& stop) {
  std::string_view left = std::string_view(lines_).substr(searched_);
  while (!left.empty() && !stop()) {
    const std::string_view piece = next_piece(left);
    searched_ += piece.size();
    find_in(piece, stop);
  }
}

void MetricMatches::find_in(std::string_view lines, const std::function<bool()>& stop) {
  const ChildOutput matches = output_of_child(
      [&] {
        std::string found;
        for_each_line(lines, [&](std::string_view line) {
          if (const auto match = metric_.match_in(line)) found += *match + '\n';
        });
        return found;
      },
      patience_);
  if (matches.end != ChildOutput::End::done && stop())
    return;  // the signal that stops us may have killed the child
  const std::string metric = format_text("zf-tune trial: --metric {}", shell_quoted(metric_.pattern()));
  if (matches.end == ChildOutput::End::late) {
    throw Error(Exit::usage, metric + " takes too long on this output",
                "it is tried at every position of a line: leave out a leading .* and repeats inside repeats");
  }
  if (matches.end == ChildOutput::End::died) {
    throw Error(Exit::runtime_error, metric + ": the process that searched the output died",
                "check that memory is left, and try again");
  }
  for_each_line(matches.text, [&](std::string_view match) {
    if (const auto value = metric_value(match)) {
      values_.push_back(*value);
    } else if (!odd_) {
      odd_ = match;
    }
  });
}

}  // namespace zf
