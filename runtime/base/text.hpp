// Text that others wrote, before it reaches a terminal or a log.
#pragma once

#include <string>

namespace zf {

/// Control characters become blanks, so that a name in a file cannot drive the terminal; line ends stay.
std::string strip_control_chars(std::string text);

/// The same, and line ends become blanks too.
std::string one_line(std::string text);

}  // namespace zf
