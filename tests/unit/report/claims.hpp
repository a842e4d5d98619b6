// Reads the sentences that compare two splits.
#pragma once

#include <optional>
#include <regex>
#include <string>

namespace zf {

/// What one sentence says of a pair of splits.
struct Claim {
  bool in_search = false;
  std::string base;     ///< a label; "this plan"
  std::string name;     ///< a label
  std::string verdict;  ///< "faster", "slower", "a tie", "unclear"
  std::string figures;  ///< "+9.4 % (+7.0 to +11.8 %)"
  double estimate = 0;  ///< per cent
  double low = 0;
  double high = 0;
  std::string sign;  ///< that is faster
  std::string rest;  ///< of the sentence
};

/// Takes the quotes off a label.
inline std::string bare(const std::string& name) {
  return name.front() == '"' ? name.substr(1, name.size() - 2) : name;
}

/// Returns the pattern with what a printed figure looks like in the place of each N.
inline std::string with_numbers(std::string pattern) {
  for (std::size_t at = 0; (at = pattern.find("(N)", at)) != std::string::npos; ++at)
    pattern.replace(at, 3, R"re(([+-][0-9]+\.[0-9]|above \+1000))re");
  return pattern;
}

/// Returns the figure, in per cent.
inline double figure_in(const std::string& printed) {
  return std::stod(printed.substr(printed.find_first_of("+-")));
}

inline std::optional<Claim> claim_in(const std::string& sentence) {
  static const std::regex pattern(with_numbers(
      R"re((In the search, against|Against) (this plan|"[^"]*")(?:, which (?:the search preferred|would win otherwise))?, )re"
      R"re((?:the next best, )?(unbound|"[^"]*")(?:, which [a-z ]*)?,? (?:is|was) (faster|slower|a tie|unclear): )re"
      R"re(((N) % \((N) to (N) %); (minus|plus) is faster\)(.*))re"));
  std::smatch match;
  if (!std::regex_match(sentence, match, pattern)) return std::nullopt;
  return Claim{
      match[1].length() > 7, bare(match[2]),      bare(match[3]),      match[4], match[5].str() + ")",
      figure_in(match[6]),   figure_in(match[7]), figure_in(match[8]), match[9], match[10]};
}

/// Returns whether the sentence has a word or a figure that compares.
inline bool compares(const std::string& sentence) {
  static const std::regex words(R"re(\b(faster|slower|ties?|unclear|better|worse|beats)\b|[+-][0-9.]+ %)re");
  return std::regex_search(sentence, words);
}

/// The sentences that compare without figures of their own: they say why a claim before them changes nothing,
/// how noise decides, or which sign is faster.
inline bool may_compare(const std::string& sentence) {
  for (const char* const words : {"That it is faster is not certain, so the choice stays",
                                  "The plan is the shared home, ", "Runs under the same split "}) {
    if (sentence.starts_with(words)) return true;
  }
  return false;
}

}  // namespace zf
