// Whole files, read and written so that no one ever sees half of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/file_descriptor.hpp"

namespace zf {

/// Largest plan or workload that is read; beyond it the file is something else.
inline constexpr std::size_t kMaxTextFileBytes = std::size_t{64} << 20;

/// The whole of a regular file. Throws Error(usage) with the path: absent, unreadable, a folder, a FIFO or
/// device (never blocks on one), larger than kMaxTextFileBytes.
std::string read_text_file(const std::filesystem::path& path);

/// A regular file to read from. Throws Error(usage) with the path: absent, unreadable, a folder, a FIFO or
/// device (never blocks on one).
FileDescriptor open_regular_file(const std::filesystem::path& path);

/// Its size in bytes.
std::uint64_t size_of_file(int fd);

/// Fills `bytes` from the file's `offset` on; how many there were, fewer only at its end. Throws
/// Error(runtime_error).
std::size_t read_at(int fd, std::uint64_t offset, std::span<std::byte> bytes);

/// A temporary file beside `path` that takes its place all at once, or never: whoever opens `path` finds the
/// old file or the whole new one, also after a power cut. Mode 0644 within the umask.
class AtomicFile {
 public:
  /// Throws Error(runtime_error) with the path, as all here: the old file is untouched then, and the
  /// temporary one is gone.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// What is not written reads as zeros.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void set_size(std::uint64_t bytes);
  /// Fsyncs it, renames it over `path`, fsyncs the folder.
  void commit();

 private:
  [[noreturn]] void fail(int error) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  FileDescriptor file_;
};

/// An AtomicFile with this text.
void write_text_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Writes all of `bytes` at an offset of a file, in as many calls as that takes. Returns 0, or the errno of
/// the call that failed.
int write_all_at(int fd, std::uint64_t offset, std::span<const std::byte> bytes);

/// Writes likewise where the descriptor stands: to a pipe, or at a file's position.
int write_all(int fd, std::span<const std::byte> bytes);

}  // namespace zf
