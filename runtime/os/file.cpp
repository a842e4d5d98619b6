#include "os/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/signals_blocked.hpp"

namespace zf {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view why, std::string_view next) {
  throw Error(Exit::usage, format_text("{}: {}", path.string(), why), next);
}

/// Calls write(from, count), a system call, until all bytes are written. Returns 0 or its errno.
template <class Write>
int write_in_full(std::span<const std::byte> bytes, Write write) {
  while (!bytes.empty()) {
    ssize_t written = -1;
    const int error = error_without_signals({SIGXFSZ}, [&] {
      written = write(bytes.data(), bytes.size());
      return written >= 0;
    });
    if (error == EINTR) continue;
    if (error != 0) return error;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

/// Opens a file, and leaves errno if that fails. Without O_NONBLOCK, opening a FIFO that has no writer would
/// wait for ever.
FileDescriptor try_open(const std::filesystem::path& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

/// Returns what try_open() has opened, or throws as open_regular_file() does.
FileDescriptor regular_file(const std::filesystem::path& path, FileDescriptor file) {
  if (!file.valid()) {
    const bool few = errno == EMFILE || errno == ENFILE;
    refuse(path, errno_text(errno), few ? descriptor_hint(errno) : "check the path and its permissions");
  }
  struct stat status = {};
  checked(::fstat(file.get(), &status), path.string());
  if (S_ISDIR(status.st_mode)) refuse(path, "is a folder", "name a file in it");
  if (!S_ISREG(status.st_mode))
    refuse(path, "is not a regular file but a FIFO or a device", "copy it to a file first");
  return file;
}

/// Returns the whole text of an open file.
std::string text_of(const std::filesystem::path& path, const FileDescriptor& file) {
  std::string text;
  const auto limit = kMaxTextFileBytes + 1;
  text.reserve(std::min(size_of_file(file.get()) + 1, limit));
  for (std::size_t used = 0;;) {
    text.resize(std::min(used + 65536, limit));
    const ssize_t got = ::read(file.get(), text.data() + used, text.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path, errno_text(errno), "check the file system that it lies on");
    used += static_cast<std::size_t>(got);
    if (used == limit) {
      refuse(path, format_text("is larger than {} MiB", kMaxTextFileBytes >> 20), "is it the right file?");
    }
    if (got == 0) {
      text.resize(used);
      return text;
    }
  }
}

}  // namespace

FileDescriptor open_regular_file(const std::filesystem::path& path) {
  return regular_file(path, try_open(path));
}

std::uint64_t size_of_file(int fd) {
  struct stat status = {};
  checked(::fstat(fd, &status), "fstat");
  return static_cast<std::uint64_t>(status.st_size);
}

std::size_t read_at(const std::filesystem::path& path, int fd, std::uint64_t offset,
                    std::span<std::byte> bytes) {
  std::size_t used = 0;
  while (used < bytes.size()) {
    const ssize_t got =
        ::pread(fd, bytes.data() + used, bytes.size() - used, static_cast<off_t>(offset + used));
    if (got < 0 && errno == EINTR) continue;
    if (checked(got, path.string(), "check the file system that it lies on") == 0) break;
    used += static_cast<std::size_t>(got);
  }
  return used;
}

std::string read_text_file(const std::filesystem::path& path) {
  return text_of(path, open_regular_file(path));
}

std::optional<std::string> read_text_file_if_any(const std::filesystem::path& path) {
  FileDescriptor file = try_open(path);
  if (!file.valid() && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  return text_of(path, regular_file(path, std::move(file)));
}

bool belongs_to_this_user(const std::filesystem::path& path, unsigned owner) {
  if (owner == ::geteuid()) return true;
  std::string name = (path.parent_path() / ".zf-tune-XXXXXX").string();
  const FileDescriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (!file.valid()) return false;
  struct stat status = {};
  const bool known = ::fstat(file.get(), &status) == 0;
  ::unlink(name.c_str());
  return known && status.st_uid == owner;
}

bool has_no_locks(int error) { return error == ENOSYS || error == ENOLCK || error == EOPNOTSUPP; }

int write_all_at(int fd, std::uint64_t offset, std::span<const std::byte> bytes) {
  return write_in_full(bytes, [&](const std::byte* from, std::size_t count) {
    const ssize_t written = ::pwrite(fd, from, count, static_cast<off_t>(offset));
    if (written > 0) offset += static_cast<std::uint64_t>(written);
    return written;
  });
}

int set_size_of_file(int fd, std::uint64_t bytes) {
  return error_without_signals({SIGXFSZ}, [&] { return ::ftruncate(fd, static_cast<off_t>(bytes)) == 0; });
}

int write_all(int fd, std::span<const std::byte> bytes) {
  return write_in_full(bytes,
                       [&](const std::byte* from, std::size_t count) { return ::write(fd, from, count); });
}

}  // namespace zf
