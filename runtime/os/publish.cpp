#include "os/publish.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <span>
#include <string>

#include "base/error.hpp"
#include "base/file_descriptor.hpp"
#include "os/file.hpp"

namespace zf {
namespace {

/// The folder, held open: from here on its name does not matter any more.
FileDescriptor folder_of_our_own(const std::filesystem::path& folder) {
  const bool made = ::mkdir(folder.c_str(), 0755) == 0;
  if (!made && errno != EEXIST) throw_errno(errno, fmt::format("cannot make the folder {}", folder.string()));
  FileDescriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid())
    throw_errno(errno, fmt::format("cannot publish in {}", folder.string()),
                "it must be a folder, not a link");
  if (made) checked(::fchmod(fd.get(), 0755), folder.string());  // the umask may have closed it to others
  struct stat status = {};
  checked(::fstat(fd.get(), &status), folder.string());
  if (status.st_uid != ::geteuid()) {
    throw Error(Exit::runtime_error,
                fmt::format("cannot publish in {}: it belongs to user {}", folder.string(), status.st_uid),
                "remove it, or publish in another folder");
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    throw Error(Exit::runtime_error,
                fmt::format("cannot publish in {}: others may write in it", folder.string()),
                fmt::format("chmod 755 {}", folder.string()));
  }
  return fd;
}

/// 0, or the errno of what failed.
int write_for_all(int folder, const std::string& name, std::string_view text) {
  const FileDescriptor file(
      ::openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file.valid()) return errno;
  if (const int error = write_all_at(file.get(), 0, std::as_bytes(std::span(text))); error != 0) return error;
  if (::fchmod(file.get(), 0644) != 0) return errno;
  return ::fsync(file.get()) == 0 ? 0 : errno;
}

}  // namespace

void publish_text_file(const std::filesystem::path& path, std::string_view text) {
  const FileDescriptor folder = folder_of_our_own(path.parent_path());
  const std::string name = path.filename().string();
  const std::string temporary = "." + name + ".tmp";
  ::unlinkat(folder.get(), temporary.c_str(), 0);  // left by one that was killed
  int error = write_for_all(folder.get(), temporary, text);
  if (error == 0 && ::renameat(folder.get(), temporary.c_str(), folder.get(), name.c_str()) != 0)
    error = errno;
  if (error == 0) return;
  ::unlinkat(folder.get(), temporary.c_str(), 0);
  throw_errno(error, fmt::format("cannot publish {}", path.string()));
}

}  // namespace zf
