#include "ipc/keep_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/format.hpp"

namespace zf {
namespace {

constexpr std::size_t kLongestName = 64;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_keep_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && is_letter_or_digit(name.front()) &&
         std::ranges::all_of(
             name, [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; });
}

/// Returns why a folder is not this user's alone; empty if it is.
std::string fault_of(const std::filesystem::path& folder, const struct stat& status) {
  if (status.st_uid == geteuid() && (status.st_mode & 077U) == 0) return "";
  return format_text("the folder {} belongs to user {} and has mode {:o}; it must be yours alone (0700)",
                     folder.string(), status.st_uid, status.st_mode & 0777U);
}

/// Opens the folder, which must be this user's alone. Returns an invalid descriptor if it went meanwhile.
FileDescriptor open_folder(const std::filesystem::path& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw_errno(errno, format_text("cannot make the folder {}", folder.string()),
                "set ZF_KEEP_FOLDER to a folder that can be made");
  FileDescriptor fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid() && errno == ENOENT) return fd;
  if (!fd.valid()) throw_errno(errno, format_text("cannot open the folder {}", folder.string()));
  struct stat status = {};
  checked(fstat(fd.get(), &status), "fstat of " + folder.string());
  const std::string fault = fault_of(folder, status);
  if (fault.empty()) return fd;
  throw Error(Exit::usage, fault, "remove it, or set ZF_KEEP_FOLDER to another one");
}

bool lock_by(int fd, Nanoseconds deadline) {
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) throw_errno(errno, "locking the folder of kept arenas");
    if (now_ns() >= deadline) return false;
    usleep(1000);
  }
  return true;
}

std::optional<KeepName> parse(const std::string& file) {
  const std::size_t dot = file.rfind('.');
  if (dot == std::string::npos) return std::nullopt;
  KeepName found = {.name = file.substr(0, dot), .rank = 0};
  const char* const end = file.data() + file.size();
  const auto [stop, error] = std::from_chars(file.data() + dot + 1, end, found.rank);
  if (error != std::errc() || stop != end || found.rank < 0 || !is_keep_name(found.name)) return std::nullopt;
  return found;
}

}  // namespace

std::string print(const KeepName& name) { return format_text("{}, rank {}", name.name, name.rank); }

void check_keep_name(std::string_view name) {
  if (is_keep_name(name)) return;
  throw Error(
      Exit::usage, format_text("\"{}\" is no name to keep an arena under", name),
      "use 1 to 64 letters, digits, \"-\", \"_\" and \".\", with a letter or a digit at the beginning");
}

std::filesystem::path keep_folder(const std::optional<std::string>& chosen) {
  if (chosen && !chosen->empty()) {
    const std::filesystem::path path = std::filesystem::absolute(*chosen);
    return path.has_filename() ? path : path.parent_path();  // without a "/" at the end, which hides a link
  }
  return format_text("/dev/shm/zf-kept-{}", geteuid());
}

std::string keep_folder_fault(const std::filesystem::path& folder) {
  struct stat status = {};
  if (lstat(folder.c_str(), &status) == 0)
    return S_ISDIR(status.st_mode) ? fault_of(folder, status)
                                   : format_text("{} is no folder", folder.string());
  if (errno == ENOENT && faccessat(AT_FDCWD, folder.parent_path().c_str(), W_OK | X_OK, AT_EACCESS) == 0)
    return "";
  return format_text("cannot make the folder {}: {}", folder.string(), errno_text(errno));
}

std::filesystem::path keep_socket(const std::filesystem::path& folder, const KeepName& name) {
  std::filesystem::path path = folder / format_text("{}.{}", name.name, name.rank);
  if (path.native().size() < sizeof(sockaddr_un::sun_path)) return path;
  throw Error(Exit::usage, format_text("the path {} is too long for a socket", path.string()),
              "set ZF_KEEP_FOLDER to a shorter one");
}

std::vector<KeepName> kept_names(const std::filesystem::path& folder) {
  std::vector<KeepName> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (auto name = parse(at->path().filename().string())) names.push_back(*std::move(name));
  }
  std::ranges::sort(names, {}, [](const KeepName& name) { return std::tie(name.name, name.rank); });
  return names;
}

KeepLock::KeepLock(std::filesystem::path folder) : folder_(std::move(folder)) {
  const Nanoseconds deadline = now_ns() + 10 * kSecondNs;
  do {
    fd_ = open_folder(folder_);
    if (!fd_.valid()) continue;
    if (!lock_by(fd_.get(), deadline))
      throw Error(Exit::runtime_error,
                  format_text("another process has held the lock of {} for 10 s", folder_.string()),
                  "end that process: `fuser` names it");
    // The folder may have been removed, and made anew, before the lock was ours.
    struct stat status = {};
    const FileId ours = fstat(fd_.get(), &status) == 0 ? FileId{status.st_dev, status.st_ino} : FileId{};
    if (file_id(folder_) == ours) return;
  } while (now_ns() < deadline);
  throw Error(Exit::runtime_error, format_text("the folder {} comes and goes", folder_.string()));
}

KeepLock::~KeepLock() {
  rmdir(folder_.c_str());
  flock(fd_.get(), LOCK_UN);  // a child forked meanwhile has the descriptor, too
}

std::optional<FileId> file_id(const std::filesystem::path& path) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0) return std::nullopt;
  return FileId{status.st_dev, status.st_ino};
}

}  // namespace zf
