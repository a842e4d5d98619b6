#include "os/publish.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <span>
#include <string>

#include "base/error.hpp"
#include "base/file_descriptor.hpp"
#include "base/format.hpp"
#include "os/file.hpp"
#include "os/same_file.hpp"
#include "os/write_target.hpp"

namespace zf {
namespace {

constexpr std::size_t kMostReadBytes = 4096;

FileDescriptor open_folder(const std::filesystem::path& folder) {
  return FileDescriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

void require_ownership(const FileDescriptor& fd, const std::filesystem::path& folder) {
  struct stat status = {};
  checked(::fstat(fd.get(), &status), folder.string());
  if (status.st_uid != ::geteuid()) {
    throw Error(Exit::runtime_error, format_text("{}: belongs to user {}", folder.string(), status.st_uid),
                "remove it, or use another folder");
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    throw Error(Exit::runtime_error, format_text("{}: others may write in it", folder.string()),
                (status.st_mode & S_ISVTX) != 0 ? "name a file in a folder in which only you may write"
                                                : format_text("chmod 755 {}", folder.string()));
  }
}

void require_readable(const FileDescriptor& fd, const std::filesystem::path& folder) {
  struct stat status = {};
  checked(::fstat(fd.get(), &status), folder.string());
  constexpr mode_t needed = S_IRGRP | S_IXGRP | S_IROTH | S_IXOTH;
  if ((status.st_mode & needed) == needed) return;
  throw Error(Exit::runtime_error,
              format_text("{}: has mode {:04o}, so other users cannot read what is published there",
                          folder.string(), status.st_mode & 07777),
              format_text("chmod 755 {}", folder.string()));
}

/// Opens the folder, creating it if needed. From here on the folder is used by its descriptor, so renaming it
/// does no harm.
FileDescriptor folder_of_our_own(const std::filesystem::path& folder, Readers readers) {
  const bool made = ::mkdir(folder.c_str(), 0755) == 0;
  if (!made && errno != EEXIST) throw_errno(errno, format_text("cannot make the folder {}", folder.string()));
  FileDescriptor fd = open_folder(folder);
  if (!fd.valid())
    throw_errno(errno, format_text("cannot publish in {}", folder.string()),
                "it must be a folder, not a link");
  if (made) checked(::fchmod(fd.get(), 0755), folder.string());  // the umask may have closed it to others
  require_ownership(fd, folder);
  if (readers == Readers::everyone) require_readable(fd, folder);
  return fd;
}

/// Writes this new file, which everyone can read. Returns 0, or the errno of the call that failed.
int write_for_all(const FileDescriptor& file, std::string_view text) {
  if (!file.valid()) return errno;
  if (const int error = write_all_at(file.get(), 0, std::as_bytes(std::span(text))); error != 0) return error;
  if (::fchmod(file.get(), 0644) != 0) return errno;
  return ::fsync(file.get()) == 0 ? 0 : errno;
}

}  // namespace

void publish_text_file(const std::filesystem::path& path, std::string_view text, Readers readers) {
  if (const WriteTarget target = write_target(path); !target.refusal.empty())
    throw Error(Exit::runtime_error, format_text("cannot publish {}: {}", path.string(), target.refusal),
                "name another file");
  const FileDescriptor folder = folder_of_our_own(path.parent_path(), readers);
  const std::string name = path.filename().string();
  const std::string temporary = "." + name + ".tmp";
  ::unlinkat(folder.get(), temporary.c_str(), 0);  // left by a process that was killed
  const FileDescriptor file(
      ::openat(folder.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  int error = write_for_all(file, text);
  if (error == 0 && ::renameat(folder.get(), temporary.c_str(), folder.get(), name.c_str()) != 0)
    error = errno;
  if (error != 0 && file.valid() && is_at(path, file)) return;  // NFS may answer ENOENT to what is done
  if (error == 0) return;
  ::unlinkat(folder.get(), temporary.c_str(), 0);
  throw_errno(error, format_text("cannot publish {}", path.string()), writing_hint(error));
}

std::optional<std::string> read_published_file(const std::filesystem::path& path) {
  const std::filesystem::path parent = path.parent_path();
  const FileDescriptor folder = open_folder(parent);
  if (!folder.valid() && errno == ENOENT) return std::nullopt;
  if (!folder.valid()) throw_errno(errno, format_text("cannot read in {}", parent.string()));
  require_ownership(folder, parent);
  // With O_NONBLOCK a FIFO is opened without waiting, and refused below.
  const FileDescriptor file(
      ::openat(folder.get(), path.filename().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid() && errno == ENOENT) return std::nullopt;
  if (!file.valid())
    throw_errno(errno, format_text("cannot read {}", path.string()), "name a file that is no link");
  struct stat status = {};
  checked(::fstat(file.get(), &status), path.string());
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid()) {
    throw Error(Exit::runtime_error,
                format_text("{}: is not a regular file of user {}", path.string(), ::geteuid()),
                "name another file");
  }
  std::string text(kMostReadBytes, '\0');
  text.resize(read_at(path, file.get(), 0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace zf
