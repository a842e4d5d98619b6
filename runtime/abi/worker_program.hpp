// Where zf-optimizer is.
#pragma once

#include <filesystem>

#include "os/environment.hpp"

namespace zf {

/// ZF_OPTIMIZER if set, else beside this library: in its folder, in ../bin (build tree, /usr/local) or in
/// ../../bin (Debian: /usr/lib/x86_64-linux-gnu). Throws AbiError(ZF_ERROR_WORKER) that names what was tried.
std::filesystem::path find_worker_program(const Environment& environment);

}  // namespace zf
