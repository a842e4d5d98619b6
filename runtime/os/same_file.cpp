#include "os/same_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <system_error>

namespace zf {

bool same_file(const std::filesystem::path& one, const std::filesystem::path& other) {
  if (one == other) return true;
  std::error_code gone;
  const bool same = std::filesystem::equivalent(one, other, gone);
  if (!gone) return same;
  std::error_code unknown;  // the current folder is gone
  const auto absolute = std::filesystem::absolute(one, unknown).lexically_normal();
  return !unknown && absolute == std::filesystem::absolute(other, unknown).lexically_normal();
}

bool is_at(const std::filesystem::path& path, const FileDescriptor& file) {
  // NFS asks its server when a file is opened; that may also fail.
  const FileDescriptor asked(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat there = {};
  struct stat here = {};
  return ::lstat(path.c_str(), &there) == 0 && ::fstat(file.get(), &here) == 0 &&
         there.st_dev == here.st_dev && there.st_ino == here.st_ino;
}

}  // namespace zf
