#include "compare/comparison.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>

#include "base/format.hpp"

namespace zf {
namespace {

/// Few visits that disagree leave an interval without a limit that means anything.
constexpr std::int64_t kMostTenths = 10'000;

/// A relative number as it is printed, in tenths of a per cent.
std::int64_t tenths_of(double relative) {
  return std::llround(std::min(1000 * relative, static_cast<double>(kMostTenths)));
}

struct Figures {
  std::int64_t estimate;
  std::int64_t low;
  std::int64_t high;
};

Figures figures_of(const Comparison& comparison) {
  const Difference shown = shown_difference(comparison);
  assert(comparison.longer.is_known());
  return {tenths_of(shown.estimate), tenths_of(shown.low), tenths_of(shown.high)};
}

std::string print_tenths(std::int64_t tenths) {
  if (tenths == kMostTenths) return "above +1000";
  return format_text("{:+.1f}", static_cast<double>(tenths) / 10);
}

}  // namespace

std::optional<Verdict> verdict_of(const Comparison& comparison) {
  if (!comparison.longer.is_known()) return std::nullopt;
  const Figures figures = figures_of(comparison);
  if (figures.high < 0) return comparison.of_rates ? Verdict::slower : Verdict::faster;
  if (figures.low > 0) return comparison.of_rates ? Verdict::faster : Verdict::slower;
  const std::int64_t most = tenths_of(comparison.accuracy);
  return figures.low >= -most && figures.high <= most ? Verdict::tie : Verdict::unclear;
}

Difference shown_difference(const Comparison& comparison) {
  return comparison.of_rates ? inverse(comparison.longer) : comparison.longer;
}

std::string print_estimate(const Comparison& comparison) {
  return print_tenths(figures_of(comparison).estimate) + " %";
}

std::string print_interval(const Comparison& comparison) {
  const Figures figures = figures_of(comparison);
  return format_text("{} to {} %", print_tenths(figures.low), print_tenths(figures.high));
}

std::string print_figures(const Comparison& comparison) {
  return format_text("{} ({})", print_estimate(comparison), print_interval(comparison));
}

std::string figures_in_words(const Comparison& comparison) {
  return format_text("{} ({}; {} is faster)", print_estimate(comparison), print_interval(comparison),
                     comparison.of_rates ? "plus" : "minus");
}

std::string comparison_in_words(const Comparison& comparison) {
  const auto verdict = verdict_of(comparison);
  if (!verdict) {
    return format_text("How {} compares with {} is not known: too few measurements", comparison.name,
                       comparison.other);
  }
  if (comparison.basis != Basis::checked) {
    return format_text("In the search, against {}, {} was {}: {}; {} after the choice", comparison.other,
                       comparison.name, name_of(*verdict), figures_in_words(comparison),
                       comparison.basis == Basis::search ? "not checked" : "checked too little");
  }
  return format_text("Against {}, {} is {}: {}", comparison.other, comparison.name, name_of(*verdict),
                     figures_in_words(comparison));
}

}  // namespace zf
