#pragma once

#include <cstddef>

namespace zf {

/// Converts an index that is never negative to the type that containers take.
inline std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace zf
