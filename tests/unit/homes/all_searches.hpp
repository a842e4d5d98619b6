// How many cases the tests of homes try.
#pragma once

#include <cstdlib>

namespace zf {

/// Returns whether all cases are to be tried, which takes minutes: the variable ZF_ALL_SEARCHES says so.
inline bool all_searches() { return std::getenv("ZF_ALL_SEARCHES") != nullptr; }

}  // namespace zf
