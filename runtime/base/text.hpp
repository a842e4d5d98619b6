// Cleans text that others wrote before it reaches a terminal or a log.
#pragma once

#include <string>

namespace zf {

/// Replaces control characters by blanks, so that a name in a file cannot drive the terminal. Keeps line
/// ends.
std::string strip_control_chars(std::string text);

/// Replaces control characters and also line ends by blanks.
std::string one_line(std::string text);

}  // namespace zf
