// Decides what a path leads to that is about to be written.
#pragma once

#include <filesystem>
#include <string>

struct stat;

namespace zf {

/// The file that a path leads to, looked at before something is written there.
struct WriteTarget {
  std::filesystem::path file;  ///< the path with its links followed; links of /proc are not followed
  bool is_stdout = false;  ///< the open file of standard output, under a name in /proc (as /dev/stdout is)
  std::string refusal;     ///< why no file can be put there, such as "is a folder"; empty if one can
};

/// Finds out what `path` leads to. A file can be put there if nothing or a regular file is there. Refused
/// are: folders, FIFOs, sockets and devices; open files of processes (/dev/stdout, /dev/fd/3), which have an
/// offset that a new file would lose; a link in a folder that others may write in, made neither by this user
/// nor by the folder's owner; and a file in a sticky folder that this user may not replace. Opens and changes
/// nothing.
WriteTarget write_target(const std::filesystem::path& path);

/// Returns the folder of a path: "." if it has none.
std::filesystem::path folder_of(const std::filesystem::path& path);

/// Returns whether users besides its owner may write in this folder.
bool others_may_write_in(const struct stat& folder);

}  // namespace zf
