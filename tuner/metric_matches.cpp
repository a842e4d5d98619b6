#include "tuner/metric_matches.hpp"

#include <fmt/core.h>

#include "base/error.hpp"
#include "tuner/child_output.hpp"

namespace zf {
namespace {

constexpr std::size_t kMostCollected = std::size_t{8} << 20;

/// Calls `each` with every line of `text`, whose lines all have an end.
template <class Function>
void for_each_line(std::string_view text, const Function& each) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    each(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
}

}  // namespace

MetricMatches::MetricMatches(const Metric& metric, std::chrono::milliseconds patience)
    : metric_(metric), patience_(patience) {}

void MetricMatches::add(std::string_view line) {
  lines_ += line.substr(0, kMetricColumns);
  lines_ += '\n';
  if (lines_.size() >= kMostCollected) finish();
}

void MetricMatches::finish() {
  const ChildOutput matches = output_of_child(
      [&] {
        std::string found;
        for_each_line(lines_, [&](std::string_view line) {
          if (const auto match = metric_.match_in(line)) found += *match + '\n';
        });
        return found;
      },
      patience_);
  lines_.clear();
  if (matches.end != ChildOutput::End::done) {
    throw Error(
        Exit::usage,
        fmt::format("zf-tune trial: --metric {} {} on this output", metric_.pattern(),
                    matches.end == ChildOutput::End::late ? "takes too long" : "needs too much memory"),
        "write it without a repeat inside a repeat");
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
