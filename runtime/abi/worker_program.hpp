// Finds the program zf-optimizer.
#pragma once

#include <filesystem>

#include "os/environment.hpp"

namespace zf {

/// Returns an absolute path, so that a later change of the working directory starts no other program again:
/// ZF_OPTIMIZER if set, else the program near this library: in its folder, in ../bin (build tree,
/// /usr/local) or in ../../bin (Debian, where the library lies in /usr/lib/x86_64-linux-gnu). Throws
/// AbiError(ZF_ERROR_WORKER) that names the paths that were tried.
std::filesystem::path find_worker_program(const Environment& environment);

}  // namespace zf
