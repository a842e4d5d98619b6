// Tells whether two paths name one file.
#pragma once

#include <filesystem>

namespace zf {

/// Returns true if both paths name one file, also if one is relative and the other absolute, or if one is a
/// link. Relative paths are relative to the caller's working folder. If one of the files is gone, compares
/// the absolute paths.
bool same_file(const std::filesystem::path& one, const std::filesystem::path& other);

}  // namespace zf
