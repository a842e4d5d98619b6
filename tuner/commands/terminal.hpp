// The width of a terminal.
#pragma once

#include <cstddef>

namespace zf {

/// Returns the number of columns of the terminal behind a descriptor. If it is not a terminal or does not
/// tell, returns the value of the environment variable COLUMNS, or 80 without it. A width below 40 counts
/// as 80.
std::size_t terminal_columns(int stream);

}  // namespace zf
