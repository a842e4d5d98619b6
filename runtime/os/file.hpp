// Reads files, and writes whole ranges of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/file_descriptor.hpp"

namespace zf {

/// The largest plan or workload that is read. A larger file is something else.
inline constexpr std::size_t kMaxTextFileBytes = std::size_t{64} << 20;

/// Returns the whole text of a regular file. Throws Error(usage) with the path if it is absent, unreadable, a
/// folder, a FIFO or device (never blocks on one), or larger than kMaxTextFileBytes.
std::string read_text_file(const std::filesystem::path& path);

/// Does the same, and returns nothing if there is no such file.
std::optional<std::string> read_text_file_if_any(const std::filesystem::path& path);

/// Opens a regular file for reading. Throws Error(usage) with the path if it is absent, unreadable, a folder,
/// or a FIFO or device (never blocks on one).
FileDescriptor open_regular_file(const std::filesystem::path& path);

/// Returns the size of an open file in bytes. Throws Error(runtime_error).
std::uint64_t size_of_file(int fd);

/// Fills `bytes` from an offset of the open file. Returns how many bytes were read, which are fewer only at
/// the end of the file. Throws Error(runtime_error) with the path.
std::size_t read_at(const std::filesystem::path& path, int fd, std::uint64_t offset,
                    std::span<std::byte> bytes);

/// Returns whether a file at `path` that `owner` owns is this user's: the owner is the user of this process,
/// or the owner of what this process creates in that folder. (NFS gives root's files to another user, and a
/// mounted share all files to one user.) To learn that, it creates a file there and removes it.
bool belongs_to_this_user(const std::filesystem::path& path, unsigned owner);

/// Tells whether flock() failed with this errno because files cannot be locked there: on Lustre without the
/// mount option flock, on NFS without its lock service, in some sandboxes.
bool has_no_locks(int error);

/// Writes all of `bytes` at an offset of a file, in as many calls as that takes. Returns 0, or the errno of
/// the call that failed. A file above `ulimit -f` is an error (EFBIG), and no signal; here and below.
int write_all_at(int fd, std::uint64_t offset, std::span<const std::byte> bytes);

/// Sets the size of a file. Returns 0 or the errno.
int set_size_of_file(int fd, std::uint64_t bytes);

/// Writes in the same way where the descriptor stands: to a pipe, or at a file's position.
int write_all(int fd, std::span<const std::byte> bytes);

}  // namespace zf
