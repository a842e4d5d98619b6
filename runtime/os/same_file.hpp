// Tells whether two paths, or a path and a descriptor, name one file.
#pragma once

#include <filesystem>

#include "base/file_descriptor.hpp"

namespace zf {

/// Returns true if both paths name one file, also if one is relative and the other absolute, or if one is a
/// link. Relative paths are relative to the caller's working folder. If one of the files is gone, compares
/// the absolute paths.
bool same_file(const std::filesystem::path& one, const std::filesystem::path& other);

/// Returns whether the file at `path` is this open one. A link is not followed. NFS is made to ask its
/// server.
bool is_at(const std::filesystem::path& path, const FileDescriptor& file);

}  // namespace zf
