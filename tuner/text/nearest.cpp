#include "text/nearest.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/format.hpp"

namespace zf {
namespace {

constexpr std::size_t kMostSlips = 2;

std::string small_letters(std::string_view text) {
  std::string small(text);
  for (char& letter : small) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return small;
}

/// Returns the number of slips between two words: their edit distance, where two swapped neighbours are one
/// slip (optimal string alignment).
std::size_t slips(std::string_view from, std::string_view to) {
  // rows[0] is the row of the letter before last, rows[1] that of the last letter, rows[2] that of this one.
  std::array<std::vector<std::size_t>, 3> rows;
  rows.fill(std::vector<std::size_t>(to.size() + 1));
  for (std::size_t j = 0; j <= to.size(); ++j) rows[2][j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::rotate(rows.begin(), rows.begin() + 1, rows.end());
    rows[2][0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t wrong = from[i - 1] == to[j - 1] ? 0 : 1;
      rows[2][j] = std::min({rows[1][j] + 1, rows[2][j - 1] + 1, rows[1][j - 1] + wrong});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) rows[2][j] = std::min(rows[2][j], rows[0][j - 2] + 1);
    }
  }
  return rows[2][to.size()];
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known) {
  if (word.empty()) return std::nullopt;
  const std::string typed = small_letters(word);
  const auto begins = [&](const std::string& name) { return small_letters(name).starts_with(typed); };
  if (std::count_if(known.begin(), known.end(), begins) == 1)
    return *std::find_if(known.begin(), known.end(), begins);

  std::optional<std::string> best;
  std::size_t fewest = kMostSlips + 1;
  for (const std::string& name : known) {
    // The lengths alone tell that more slips lie between them. A word of any length is cheap so.
    if (std::max(name.size(), typed.size()) - std::min(name.size(), typed.size()) > kMostSlips) continue;
    const std::size_t count = slips(typed, small_letters(name));
    if (count >= fewest || 2 * count >= typed.size()) continue;
    best = name;
    fewest = count;
  }
  return best;
}

std::optional<std::string> did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const auto name = nearest(word, known);
  return name ? std::optional(format_text("did you mean {}?", *name)) : std::nullopt;
}

std::optional<std::string> did_you_mean(std::string_view word, std::string_view list) {
  constexpr std::string_view kBetween = ", ";
  std::vector<std::string> known;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(kBetween), list.size());
    known.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + kBetween.size(), list.size()));
  }
  return did_you_mean(word, known);
}

}  // namespace zf
