// The environment variables by which the math libraries of a command learn how many threads to use.
#pragma once

#include <array>

namespace zf {

/// OpenMP's, MKL's, which MKL and torch prefer, and OpenBLAS's, which numpy's wheels prefer. The last two
/// libraries take OpenMP's number if their own is not set.
inline constexpr std::array<const char*, 3> kThreadVariables{"OMP_NUM_THREADS", "MKL_NUM_THREADS",
                                                             "OPENBLAS_NUM_THREADS"};

}  // namespace zf
