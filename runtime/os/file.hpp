// Whole files, read and written so that no one ever sees half of one.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace zf {

/// Largest plan or workload that is read; beyond it the file is something else.
inline constexpr std::size_t kMaxTextFileBytes = std::size_t{64} << 20;

/// The whole of a regular file. Throws Error(usage) with the path: absent, unreadable, a folder, a FIFO or
/// device (never blocks on one), larger than kMaxTextFileBytes.
std::string read_text_file(const std::filesystem::path& path);

/// Writes a temporary file beside `path`, fsyncs it, renames it over `path`, fsyncs the folder. On failure
/// throws Error(runtime_error) with the path; the old file is untouched and the temporary one is gone.
/// Mode 0644 within the umask.
void write_text_file_atomically(const std::filesystem::path& path, std::string_view text);

/// The whole of `text`, however many writes that takes. 0, or the errno of the write that failed.
int write_all(int fd, std::string_view text);

}  // namespace zf
