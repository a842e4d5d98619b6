// Suggests the nearest known word for a mistyped one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zf {

/// Returns the word of `known` that `word` was most likely meant to be; nothing if none is near. Capitals and
/// small letters are equal. The first of these that exists:
/// - the only one that begins with `word`,
/// - the one with the fewest slips, or the first of them. A slip is a letter that is wrong, missing, too many
///   or swapped with its neighbour. There may be two, and fewer than half as many as `word` has letters.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known);

/// Returns "did you mean X?", where X is nearest().
std::optional<std::string> did_you_mean(std::string_view word, const std::vector<std::string>& known);

/// Does the same for words in a list such as "wait, exact".
std::optional<std::string> did_you_mean(std::string_view word, std::string_view list);

}  // namespace zf
