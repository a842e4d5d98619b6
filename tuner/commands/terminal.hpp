// How wide a person's page is.
#pragma once

#include <cstddef>

namespace zf {

/// Returns the columns of the terminal behind a descriptor. What is no terminal, or does not say, has as many
/// as the variable COLUMNS says, else 80.
std::size_t terminal_columns(int stream);

}  // namespace zf
