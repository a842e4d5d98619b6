// One split beside another, for a person: the verdict, the figures and the words. Everything that is said of
// a difference between splits is said by these. Pure.
#pragma once

#include <optional>
#include <string>

#include "base/enum_names.hpp"
#include "compare/difference.hpp"

namespace zf {

/// What the interval of a difference shows.
enum class Verdict { faster, slower, tie, unclear };

template <>
inline constexpr auto kEnumNames<Verdict> = std::to_array<EnumName<Verdict>>({{Verdict::faster, "faster"},
                                                                              {Verdict::slower, "slower"},
                                                                              {Verdict::tie, "a tie"},
                                                                              {Verdict::unclear, "unclear"}});

/// The measurements that a comparison rests on.
enum class Basis {
  checked,       ///< visits after the choice, or the runs of a trial
  search,        ///< visits that led to the choice, and so favour it: none came after it
  search_still,  ///< the same, because too few came after the choice to know the difference by them
};

/// A split beside another one. Unless a sentence says otherwise, the other one is that of the plan, so that a
/// pair of splits has one figure.
struct Comparison {
  std::string name;     ///< of the split: `unbound`, or `the next best, "pool 4",` with a comma at its end
  Difference longer;    ///< by how much the split takes longer than the other one
  double accuracy = 0;  ///< relative; the smallest difference that counts
  Basis basis = Basis::checked;
  std::string other = "this plan";  ///< the split that it is compared with
  bool of_rates = false;            ///< figures of a throughput: plus is faster
};

/// Returns the verdict on the split: faster or slower if the interval is without zero; otherwise a tie if the
/// whole interval is within ± the accuracy; otherwise unclear. Counts with the figures as they are printed,
/// in tenths of a per cent. Returns nothing if the interval is unknown: then no figure is printed either.
std::optional<Verdict> verdict_of(const Comparison& comparison);

/// Returns the difference that the figures are of: that of the times, or of the throughput.
Difference shown_difference(const Comparison& comparison);
/// Returns "+9.4 %". Precondition of this and the next three: the interval is known.
std::string print_estimate(const Comparison& comparison);
/// Returns "+7.0 to +11.8 %", or "-80.0 to above +1000 %".
std::string print_interval(const Comparison& comparison);
/// Returns "+9.4 % (+7.0 to +11.8 %)", for a table with a caption that says which sign is faster.
std::string print_figures(const Comparison& comparison);
/// Returns "+9.4 % (+7.0 to +11.8 %; minus is faster)".
std::string figures_in_words(const Comparison& comparison);

/// Returns "Against this plan, unbound is slower: +9.4 % (+7.0 to +11.8 %; minus is faster)". If that is of
/// the search, says so, and that it was not checked. Without an interval, says that nothing is known.
std::string comparison_in_words(const Comparison& comparison);

}  // namespace zf
