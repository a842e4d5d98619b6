#include "os/file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <optional>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/file_descriptor.hpp"

namespace zf {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view why, std::string_view next) {
  throw Error(Exit::usage, fmt::format("{}: {}", path.string(), why), next);
}

/// Creates a file of a new name beside `path`. open() applies the umask to 0644 by itself; asking for the
/// umask (mkstemp and fchmod) would change it for every thread for a moment.
std::pair<FileDescriptor, std::filesystem::path> create_beside(const std::filesystem::path& path) {
  static std::atomic<unsigned> counter{0};
  for (int attempt = 0; attempt < 100; ++attempt) {
    const auto name = fmt::format(".{}.{}.{:x}.{}.tmp", path.filename().string().substr(0, 100), ::getpid(),
                                  now_ns(), counter.fetch_add(1));
    const auto temporary = path.parent_path() / name;
    FileDescriptor file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (file.valid()) return {std::move(file), temporary};
    if (errno != EEXIST) break;
  }
  throw_errno(errno, fmt::format("cannot write {}: cannot create a file in its folder", path.string()),
              "give -o a path in a folder that exists and can be written");
}

/// The rename itself must survive a power cut. File systems that cannot sync a folder say EINVAL.
int sync_folder(const std::filesystem::path& folder) {
  const FileDescriptor fd(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return errno == EACCES ? 0 : errno;  // a folder that may be written but not listed
  return ::fsync(fd.get()) == 0 || errno == EINVAL ? 0 : errno;
}

}  // namespace

int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

std::string read_text_file(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO without a writer would wait for one for ever.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid()) refuse(path, errno_text(errno), "check the path and its permissions");
  struct stat status = {};
  checked(::fstat(file.get(), &status), path.string());
  if (S_ISDIR(status.st_mode)) refuse(path, "is a folder", "name a file in it");
  if (!S_ISREG(status.st_mode))
    refuse(path, "is no regular file (a FIFO or a device)", "copy it to a file first");

  std::string text;
  const auto limit = kMaxTextFileBytes + 1;
  text.reserve(std::min(static_cast<std::size_t>(status.st_size) + 1, limit));
  for (std::size_t used = 0;;) {
    text.resize(std::min(used + 65536, limit));
    const ssize_t got = ::read(file.get(), text.data() + used, text.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path, errno_text(errno), "check the file system that it lies on");
    used += static_cast<std::size_t>(got);
    if (used == limit) {
      refuse(path, fmt::format("is larger than {} MiB", kMaxTextFileBytes >> 20), "is it the right file?");
    }
    if (got == 0) {
      text.resize(used);
      return text;
    }
  }
}

void write_text_file_atomically(const std::filesystem::path& path, std::string_view text) {
  struct stat old = {};
  // Root could rename a plan over /dev/null.
  if (::stat(path.c_str(), &old) == 0 && !S_ISREG(old.st_mode)) {
    throw Error(Exit::runtime_error,
                fmt::format("cannot write {}: it exists and is no regular file", path.string()),
                "give the path of a file");
  }
  const auto [file, temporary] = create_beside(path);
  int error = write_all(file.get(), text);
  if (error == 0 && ::fsync(file.get()) != 0) error = errno;
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    throw_errno(error, fmt::format("cannot write {}", path.string()),
                "free some space or give another path; what was there before is unchanged");
  }
  error = sync_folder(path.parent_path());
  if (error != 0)
    throw_errno(error, fmt::format("{} is written, but its folder cannot be synced", path.string()));
}

}  // namespace zf
