// Publishes a file that everyone can read and only this user can change.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace zf {

/// Who has to be able to read a published file.
enum class Readers { everyone, owner };

/// Writes `path` with mode 0644, whatever the umask is. It writes a temporary file ".NAME.tmp" beside it and
/// renames that, so that a reader sees the whole old text or the whole new one. Only one caller at a time may
/// write a path.
/// The folder is created (mode 0755) if only it is missing. It is refused if it is a link, if it belongs to
/// another user, or if others may write in it, because they could swap the file. For
/// Readers::everyone it is also refused if others cannot read in it: they would not find the file. If the
/// file's name is a link to a file or to nothing, the link is replaced and never followed. What is no regular
/// file, and a link to that, is refused. Throws Error(runtime_error) with the path.
/// The file published before is then unchanged, and the temporary file is removed.
void publish_text_file(const std::filesystem::path& path, std::string_view text,
                       Readers readers = Readers::everyone);

/// Returns at most 4 KiB of a file that publish_text_file has written; absent if there is no such file or
/// folder. Throws Error(runtime_error) with the path if another user may have changed it: the folder is
/// refused as above, and so is a file that belongs to another user or is not a regular file. A link is not
/// followed.
std::optional<std::string> read_published_file(const std::filesystem::path& path);

}  // namespace zf
