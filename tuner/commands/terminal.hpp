// The width of a terminal.
#pragma once

#include <cstddef>

namespace zf {

/// Returns the number of columns of the terminal behind a descriptor. If it is not a terminal or does not
/// tell, returns the value of the environment variable COLUMNS, or 80 without it. A width below 40 counts
/// as 80.
std::size_t terminal_columns(int stream);

/// Returns how many columns a line may have that programs read, too, such as a finding: those of the
/// terminal. Unlimited if it is not a terminal, does not tell, or has fewer than 40.
std::size_t list_columns(int stream);

}  // namespace zf
