#include "os/write_target.hpp"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <list>
#include <system_error>

#include "base/error.hpp"
#include "base/format.hpp"

namespace zf {
namespace {

namespace fs = std::filesystem;

/// The kernel follows as many links in one path (path_resolution(7)).
constexpr int kMostLinks = 40;

bool is_in_proc(const fs::path& path) {
  struct statfs status = {};
  return ::statfs(folder_of(path).c_str(), &status) == 0 && status.f_type == PROC_SUPER_MAGIC;
}

bool is_file_of_stdout(const struct stat& file) {
  struct stat open = {};
  return ::fstat(STDOUT_FILENO, &open) == 0 && open.st_dev == file.st_dev && open.st_ino == file.st_ino;
}

/// Returns why a link must not be followed; "" if it may. In a folder that others may write in, they could
/// send what is written to any file of this user.
std::string why_not_followed(const fs::path& link, const struct stat& status) {
  struct stat folder = {};
  if (::stat(folder_of(link).c_str(), &folder) != 0) return errno_text(errno);
  if (!others_may_write_in(folder) || status.st_uid == ::geteuid() || status.st_uid == folder.st_uid)
    return "";
  return format_text("{} is a link that user {} made, in a folder that others may write in", link.string(),
                     status.st_uid);
}

/// Returns why no file can be put in the place of this one; "" if one can.
std::string why_not_replaced(const fs::path& path, const struct stat& status) {
  if (S_ISDIR(status.st_mode)) return "this is a folder";
  if (!S_ISREG(status.st_mode)) return "this is not a regular file (it may be a FIFO, a socket or a device)";
  struct stat folder = {};
  if (::stat(folder_of(path).c_str(), &folder) != 0) return errno_text(errno);
  const uid_t user = ::geteuid();
  if ((folder.st_mode & S_ISVTX) == 0 || user == 0 || user == status.st_uid || user == folder.st_uid)
    return "";
  return format_text("only user {} may replace it, in a sticky folder", status.st_uid);
}

/// Fills in what the last link leads to: it is one of /proc, so a process has that file open.
void examine_open_file(WriteTarget& target) {
  struct stat status = {};
  if (::stat(target.file.c_str(), &status) != 0) {
    target.refusal = errno_text(errno);
  } else if (S_ISDIR(status.st_mode)) {
    target.refusal = "this is a folder";
  } else {
    target.is_stdout = is_file_of_stdout(status);
    target.refusal = "this is an open file of a process, and not the name of a file";
  }
}

}  // namespace

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : "."; }

bool others_may_write_in(const struct stat& folder) { return (folder.st_mode & (S_IWGRP | S_IWOTH)) != 0; }

WriteTarget write_target(const fs::path& path) {
  WriteTarget target;
  if (path.empty()) target.refusal = "the name is empty";
  std::list<fs::path> left(path.begin(), path.end());
  for (int links = 0; !left.empty();) {
    const fs::path next = target.file / left.front();
    left.pop_front();
    struct stat status = {};
    if (::lstat(next.c_str(), &status) != 0 && errno != ENOENT) {
      target.refusal = errno_text(errno);
      return target;
    }
    const bool is_link = S_ISLNK(status.st_mode);  // zeros: nothing is there
    // A link of /proc on the way leads to a folder as the kernel sees it, maybe not as its text says.
    if (!is_link || (is_in_proc(next) && !left.empty())) {
      target.file = next;
      if (left.empty() && status.st_mode != 0) target.refusal = why_not_replaced(next, status);
      continue;
    }
    if (is_in_proc(next)) {
      target.file = next;
      examine_open_file(target);
      return target;
    }
    target.refusal = ++links > kMostLinks ? errno_text(ELOOP) : why_not_followed(next, status);
    if (!target.refusal.empty()) return target;
    std::error_code error;
    const fs::path text = fs::read_symlink(next, error);
    if (error) {
      target.refusal = error.message();
      return target;
    }
    if (text.is_absolute()) target.file.clear();
    left.insert(left.begin(), text.begin(), text.end());
  }
  return target;
}

}  // namespace zf
