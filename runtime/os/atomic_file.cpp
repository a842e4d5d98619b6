#include "os/atomic_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "os/file.hpp"
#include "os/same_file.hpp"
#include "os/write_target.hpp"

namespace zf {
namespace {

/// A temporary file without a lock is taken for abandoned if it is not written for this long. A writer that
/// syncs its file does not write it meanwhile.
constexpr Nanoseconds kSilentNs = 2 * kSecondNs;

/// Returns the path by which linkat() finds an open file.
std::string link_to(const FileDescriptor& file) { return format_text("/proc/self/fd/{}", file.get()); }

/// Returns the name beside `path` that writers use one after another.
std::filesystem::path stable_name(const std::filesystem::path& path) {
  return path.parent_path() / format_text(".{}.tmp", path.filename().string().substr(0, 100));
}

/// Returns a name beside `path` that no other writer uses.
std::filesystem::path unique_name(const std::filesystem::path& path) {
  static std::atomic<unsigned> counter{0};
  return path.parent_path() / format_text(".{}.{}.{:x}.{}.tmp", path.filename().string().substr(0, 100),
                                          ::getpid(), now_ns(), counter.fetch_add(1));
}

/// The mode of a temporary file that will be a new file. open() applies the umask to it by itself. (With
/// fchmod the umask would have to be read, and reading it changes it for every thread for a moment.)
constexpr mode_t kNewMode = 0644;

/// The mode of a temporary file that will have the mode of another file.
constexpr mode_t kClosedMode = 0600;

/// Creates a file without a name in the folder of `path`. Returns an invalid descriptor if the file system
/// has no such files, or if the file could not be given a name later.
FileDescriptor create_nameless(const std::filesystem::path& path, mode_t mode) {
  FileDescriptor file(::open(folder_of(path).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, mode));
  if (file.valid() && ::access(link_to(file).c_str(), F_OK) != 0) return FileDescriptor();
  return file;
}

/// Opens a temporary file without waiting for anything.
FileDescriptor open_temporary(const std::filesystem::path& temporary, int access) {
  return FileDescriptor(::open(temporary.c_str(), access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

/// Tells whether the file at `temporary` is not written for kSilentNs. Returns as soon as it is.
bool is_silent(const std::filesystem::path& temporary, const FileDescriptor& file) {
  struct stat before = {};
  if (::fstat(file.get(), &before) != 0) return false;
  const Nanoseconds end = now_ns() + kSilentNs;
  while (now_ns() < end) {
    ::usleep(20'000);
    struct stat now = {};
    if (!is_at(temporary, file) || ::fstat(file.get(), &now) != 0) return false;
    if (std::tie(now.st_size, now.st_mtim.tv_sec, now.st_mtim.tv_nsec) !=
        std::tie(before.st_size, before.st_mtim.tv_sec, before.st_mtim.tv_nsec))
      return false;
  }
  return true;
}

/// Removes a temporary file if its writer has ended. A writer that lives holds its lock. Without locks, one
/// that lives is seen to write. Returns whether the name is free.
bool remove_abandoned(const std::filesystem::path& temporary) {
  FileDescriptor file = open_temporary(temporary, O_WRONLY);
  // It had the mode of a read-only file already. (NFS can only lock a file that is open for writing.)
  if (!file.valid() && errno == EACCES) file = open_temporary(temporary, O_RDONLY);
  if (!file.valid()) return errno == ENOENT;
  const bool locked = ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
  const bool abandoned = locked || (has_no_locks(errno) && is_silent(temporary, file));
  return abandoned && is_at(temporary, file) && ::unlink(temporary.c_str()) == 0;
}

/// Creates and locks a named file beside `path`: at ".NAME.tmp", or at another name if a living writer has
/// that one.
std::pair<FileDescriptor, std::filesystem::path> create_beside(const std::filesystem::path& path,
                                                               mode_t mode) {
  auto temporary = stable_name(path);
  if (!remove_abandoned(temporary)) temporary = unique_name(path);
  for (int attempt = 0; attempt < 100; ++attempt) {
    FileDescriptor file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
    // A process that looks whether the file is abandoned has its lock for a moment, and may remove it.
    const bool taken = file.valid() && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (file.valid() && !taken && is_at(temporary, file)) return {std::move(file), std::move(temporary)};
    if (!file.valid() && errno != EEXIST) break;
    temporary = unique_name(path);
  }
  const int error = errno;
  throw_errno(error,
              format_text("cannot write {}: cannot create a temporary file in its folder", path.string()),
              error == EMFILE || error == ENFILE ? descriptor_hint(error)
                                                 : "give a path in a folder that exists and can be written");
}

/// Returns the errno value of a call that gives an open file this name; 0 if the file has it. On NFS a call
/// may be done although it failed: the client asks again if the answer is lost, and is told that the old name
/// is gone (ENOENT) or that the new one exists (EEXIST).
int error_unless_at(const std::filesystem::path& name, const FileDescriptor& file, int result) {
  const int error = result == 0 ? 0 : errno;
  return error == 0 || is_at(name, file) ? 0 : error;
}

/// Gives a nameless file this name. Returns 0 or an errno value.
int give_name(const FileDescriptor& file, const std::filesystem::path& name) {
  return error_unless_at(
      name, file, ::linkat(AT_FDCWD, link_to(file).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW));
}

/// Returns whether files cannot be linked here: a sandbox may allow files without a name, but refuse
/// linkat().
bool cannot_link(int error) {
  return error == EPERM || error == EACCES || error == ENOSYS || error == EOPNOTSUPP || error == EXDEV;
}

/// Syncs a folder, so that a rename in it survives a power cut. Returns 0 or an errno value. File systems
/// that cannot sync a folder answer EINVAL.
int sync_folder(const std::filesystem::path& folder) {
  const FileDescriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return errno == EACCES ? 0 : errno;  // a folder that may be written but not listed
  return ::fsync(fd.get()) == 0 || errno == EINVAL ? 0 : errno;
}

/// Returns whether a new file may have the owner and the mode of the old one at this path. In a folder that
/// others may write in, another user may have made it, to read or to change what is written there.
bool may_pass_on_permissions(const std::filesystem::path& path, const struct stat& old) {
  struct stat folder = {};
  const bool is_ours_alone = ::stat(folder_of(path).c_str(), &folder) == 0 && !others_may_write_in(folder);
  return is_ours_alone || belongs_to_this_user(path, old.st_uid);
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : name_(std::move(path)) {
  WriteTarget target = write_target(name_);
  // Otherwise root could rename a plan over /dev/null.
  if (!target.refusal.empty())
    throw Error(Exit::runtime_error, format_text("cannot write {}: {}", name_.string(), target.refusal),
                "give the path of a file");
  path_ = std::move(target.file);
  struct stat old = {};
  if (::lstat(path_.c_str(), &old) == 0 && may_pass_on_permissions(path_, old))
    replaced_ = {old.st_uid, old.st_gid, old.st_mode & 0777};
  const mode_t mode = replaced_ ? kClosedMode : kNewMode;
  file_ = create_nameless(path_, mode);
  if (!file_.valid()) std::tie(file_, temporary_) = create_beside(path_, mode);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty() && is_at(temporary_, file_)) ::unlink(temporary_.c_str());
}

void AtomicFile::fail(int error) const {
  throw_errno(
      error, format_text("cannot write {}", name_.string()),
      format_text("{}; what was there before is unchanged", writing_hint(error, "give another path")));
}

void AtomicFile::fail_rename(int error) const {
  struct stat there = {};
  if (::lstat(path_.c_str(), &there) == 0 || errno == ENOENT) fail(error);
  throw_errno(
      error,
      format_text("cannot write {}, nor see whether the old file or the new one is there", name_.string()),
      writing_hint(error, "write it again"));
}

void AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (const int error = write_all_at(file_.get(), offset, bytes); error != 0) fail(error);
}

void AtomicFile::set_size(std::uint64_t bytes) {
  if (const int error = set_size_of_file(file_.get(), bytes); error != 0) fail(error);
}

void AtomicFile::move_to_named_file() {
  auto [named, name] = create_beside(path_, replaced_ ? kClosedMode : kNewMode);
  try {
    std::vector<std::byte> buffer(std::size_t{1} << 20);
    std::uint64_t at = 0;
    while (const std::size_t got = read_at(path_, file_.get(), at, buffer)) {
      if (const int error = write_all_at(named.get(), at, std::span(buffer).first(got)); error != 0)
        fail(error);
      at += got;
    }
    if (::fsync(named.get()) != 0) fail(errno);
  } catch (...) {
    if (is_at(name, named)) ::unlink(name.c_str());
    throw;
  }
  file_ = std::move(named);
  temporary_ = std::move(name);
}

bool AtomicFile::give_stable_name() {
  // linkat() replaces no file, so the file needs another name before it gets that of `path`. With the stable
  // one, the next writer removes the file if this process is killed before rename(). A living writer may have
  // that name.
  const bool locked = ::flock(file_.get(), LOCK_EX | LOCK_NB) == 0;  // before other writers can see it
  std::filesystem::path name = stable_name(path_);
  int error = give_name(file_, name);
  if (error == EEXIST) {
    if (!remove_abandoned(name)) name = unique_name(path_);
    error = give_name(file_, name);
  }
  if (error == EEXIST) error = give_name(file_, name = unique_name(path_));
  if (error == 0) {
    temporary_ = std::move(name);  // allocates nothing: the destructor must know what it removes
    return locked;
  }
  if (!cannot_link(error)) fail(error);
  move_to_named_file();
  return false;
}

void AtomicFile::take_own_name() {
  const std::filesystem::path shared = temporary_;
  std::filesystem::path own = unique_name(path_);
  if (const int error = error_unless_at(own, file_, std::rename(shared.c_str(), own.c_str())); error != 0) {
    if (error != ENOENT) fail(error);
    throw Error(Exit::runtime_error,
                format_text("cannot write {}: another process has removed {}", name_.string(),
                            shared.filename().string()),
                "write it again; what was there before is unchanged");
  }
  temporary_ = std::move(own);
  if (is_at(temporary_, file_)) return;
  // The file goes back to its writer. If a third one has taken the name meanwhile, the second one fails.
  if (::link(temporary_.c_str(), shared.c_str()) == 0 || errno == EEXIST) {
    ::unlink(temporary_.c_str());
  } else {
    std::rename(temporary_.c_str(), shared.c_str());
  }
  throw Error(Exit::runtime_error,
              format_text("cannot write {}: another process has begun to write it", name_.string()),
              "let one process at a time write it; what was there before is unchanged");
}

void AtomicFile::take_permissions() const {
  if (!replaced_) return;
  const int fd = file_.get();
  struct stat now = {};
  if (::fstat(fd, &now) != 0) fail(errno);
  if (now.st_uid != replaced_->owner || now.st_gid != replaced_->group) {
    // Root may give the file to its former owner. Others may give it to a group of theirs. Which of them
    // worked is read back.
    if (::fchown(fd, replaced_->owner, replaced_->group) != 0) {
      [[maybe_unused]] const int refused = ::fchown(fd, static_cast<uid_t>(-1), replaced_->group);
    }
    if (::fstat(fd, &now) != 0) fail(errno);
  }
  mode_t mode = replaced_->mode;
  if (now.st_gid != replaced_->group) mode &= ~mode_t{070} | ((mode & 07) << 3);
  // Where modes cannot be set, the file stays closed to others. That is no reason to lose it.
  [[maybe_unused]] const int refused = ::fchmod(fd, mode);
}

void AtomicFile::commit() {
  if (::fsync(file_.get()) != 0) fail(errno);
  // Others leave a file alone that they see is locked. They do not see it where there are no locks, or from
  // another node of some file systems.
  const bool left_alone = temporary_.empty() && give_stable_name();
  if (!left_alone) take_own_name();
  take_permissions();
  const std::filesystem::path folder = folder_of(path_);
  if (const int error = error_unless_at(path_, file_, std::rename(temporary_.c_str(), path_.c_str()));
      error != 0)
    fail_rename(error);
  temporary_.clear();
  if (const int error = sync_folder(folder); error != 0)
    throw_errno(error,
                format_text("{} is written, but its folder cannot be synced: the old file may be back after "
                            "a power cut",
                            name_.string()),
                writing_hint(error, "write it again"));
}

void write_text_file_atomically(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write_at(0, std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace zf
