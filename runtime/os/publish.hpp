// A file for everyone to read, where nobody else can have a hand in it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace zf {

/// Writes `path` with mode 0644, whatever the umask: a temporary file ".NAME.tmp" beside it, then a rename,
/// so that a reader sees the old text or the new one, whole. One caller at a time for one path. The folder is
/// made (0755) if it is missing and the one above it is there. It is refused when it is a link, when it is
/// not this user's, or when others may write in it: they could swap what is published. A link under the
/// file's own name is replaced, never followed.
/// Throws Error(runtime_error) with the path; then what was published before is unchanged, and the temporary
/// file is gone.
void publish_text_file(const std::filesystem::path& path, std::string_view text);

/// What publish_text_file has written, at most 4 KiB of it; absent where there is no such file or folder.
/// Throws Error(runtime_error) with the path when somebody else may have had a hand in it: the folder is
/// refused as above, and so is a file that is not this user's, or is no regular file (a link is not
/// followed).
std::optional<std::string> read_published_file(const std::filesystem::path& path);

}  // namespace zf
