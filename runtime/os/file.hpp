// Reads whole files, and writes them so that no reader ever sees half of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
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

/// Opens a regular file for reading. Throws Error(usage) with the path if it is absent, unreadable, a folder,
/// or a FIFO or device (never blocks on one).
FileDescriptor open_regular_file(const std::filesystem::path& path);

/// Returns the size of an open file in bytes. Throws Error(runtime_error).
std::uint64_t size_of_file(int fd);

/// Fills `bytes` from an offset of the open file. Returns how many bytes were read, which are fewer only at
/// the end of the file. Throws Error(runtime_error) with the path.
std::size_t read_at(const std::filesystem::path& path, int fd, std::uint64_t offset,
                    std::span<std::byte> bytes);

/// A temporary file that replaces `path` in one step, or never. Whoever opens `path` finds the old file or
/// the whole new one, also after a power cut. The mode is 0644 within the umask. Until commit() the temporary
/// file has no name, so a process that is killed leaves nothing. Only a kill between the two calls that name
/// and move it (linkat, rename) leaves the whole new file, as ".NAME.tmp" beside `path`. Where every file has
/// a name (NFS, Lustre), the temporary file has that name from the beginning, and where a sandbox refuses
/// linkat, from commit() on. The next writer of `path` removes what a killed one left there, if the file
/// system has flock. While another living writer has the name, the temporary file is called
/// ".NAME.PID.TIME.N.tmp", and nobody removes that one.
class AtomicFile {
 public:
  /// Creates the temporary file. This and every other function throws Error(runtime_error) with the path if
  /// it fails; the old file is then untouched, and the temporary file is removed.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Writes bytes at an offset. Ranges that are never written read as zeros.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void set_size(std::uint64_t bytes);
  /// Syncs the file, renames it over `path`, and syncs the folder.
  void commit();

 private:
  [[noreturn]] void fail(int error) const;
  /// Copies the file without a name to one that has a name, and goes on with that one.
  void move_to_named_file();

  std::filesystem::path path_;
  std::filesystem::path temporary_;  ///< empty as long as the file has no name
  FileDescriptor file_;
};

/// Writes a text through an AtomicFile.
void write_text_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Writes all of `bytes` at an offset of a file, in as many calls as that takes. Returns 0, or the errno of
/// the call that failed.
int write_all_at(int fd, std::uint64_t offset, std::span<const std::byte> bytes);

/// Writes likewise where the descriptor stands: to a pipe, or at a file's position.
int write_all(int fd, std::span<const std::byte> bytes);

}  // namespace zf
