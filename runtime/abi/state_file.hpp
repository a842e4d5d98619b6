// Parameters, moments and step counts of all groups to a file, and back.
#pragma once

#include <filesystem>

#include "ipc/arena.hpp"
#include "submissions.hpp"

namespace zf {

/// While nothing is under way. Throws Error(runtime_error): the file that was there before is untouched then.
void write_state(const std::filesystem::path& path, const Arena& arena, const Submissions& groups);

/// While nothing is under way. The whole file is verified before anything is changed. Throws
/// Refusal(ZF_ERROR_STATE): damaged, of another version, of other groups; Error(usage): no file there.
void read_state(const std::filesystem::path& path, const Arena& arena, const Submissions& groups);

}  // namespace zf
