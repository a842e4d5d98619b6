// Text broken into lines that fit a page. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace zf {

/// Returns how many columns a line takes on a terminal: one for each letter, whatever its bytes are.
std::size_t columns_of(std::string_view line);

/// Returns the pieces of a text, none longer than `width`, broken after blanks (which are dropped) and
/// commas, or in a word that is longer than the width after a bar (a|b). Another such word is a piece of its
/// own. An empty text is one empty piece. Counts letters.
std::vector<std::string> broken(std::string_view text, std::size_t width);

/// Returns `lead` and then the text, broken at `width`. Each line after the first is indented by the width
/// of `lead`. Ends with a newline.
std::string hanging(std::string_view lead, std::string_view text, std::size_t width);

/// Returns the lines of a text, each broken at `width`. Lines that continue one are indented by two. Ends
/// with a newline, unless the text is empty.
std::string wrapped(std::string_view text, std::size_t width);

/// Returns the sentences of a text. One ends with a full stop before a blank and a capital letter or a digit.
std::vector<std::string> sentences(std::string_view text);

}  // namespace zf
