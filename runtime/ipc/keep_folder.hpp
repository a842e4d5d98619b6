// The folder in which a trainer finds the arenas that are kept: one socket for each name and rank. The folder
// is made with the first socket and removed with the last one.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.hpp"

namespace zf {

/// The name and rank under which an arena is kept.
struct KeepName {
  std::string name;
  int rank = 0;
  bool operator==(const KeepName&) const = default;
};

/// Returns "run7, rank 0".
std::string print(const KeepName& name);

/// Throws Error(usage) unless the name has 1 to 64 characters, letters, digits, "-", "_" or ".", and begins
/// with a letter or a digit.
void check_keep_name(std::string_view name);

/// Returns the folder of this user: `chosen` (the value of ZF_KEEP_FOLDER) unless it is absent or empty, else
/// /dev/shm/zf-kept-UID. All processes of a user on a node find this folder, whichever shell or step
/// started them. $XDG_RUNTIME_DIR may differ between them.
std::filesystem::path keep_folder(const std::optional<std::string>& chosen);

/// Returns why a trainer cannot keep anything there: "the folder /x belongs to …"; empty if it can. Changes
/// nothing.
std::string keep_folder_fault(const std::filesystem::path& folder);

/// Returns the path of a socket. Throws Error(usage) if it is too long for a socket.
std::filesystem::path keep_socket(const std::filesystem::path& folder, const KeepName& name);

/// Returns the names that have a socket in the folder, in alphabetical order; none if there is no folder.
std::vector<KeepName> kept_names(const std::filesystem::path& folder);

/// Holds the lock of a folder. Only its holder makes or removes a socket there, so that two trainers that
/// open one name at the same time take turns.
class KeepLock {
 public:
  /// Makes the folder (mode 0700) if there is none, and locks it. Throws Error(usage) if it is another
  /// user's, or if others may enter it, and Error(runtime_error) if it cannot be made, or another process
  /// holds the lock for more than 10 s.
  explicit KeepLock(std::filesystem::path folder);
  /// Removes the folder if it is empty, and unlocks it.
  ~KeepLock();
  KeepLock(const KeepLock&) = delete;
  KeepLock& operator=(const KeepLock&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  /// Returns the descriptor that is locked: the lock is held until all copies of it are closed, or until the
  /// destructor.
  int fd() const { return fd_.get(); }

 private:
  const std::filesystem::path folder_;
  FileDescriptor fd_;
};

/// Identifies a file, so that only its owner removes it.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileId&) const = default;
};
/// Returns the identity of the file at a path; absent if there is none.
std::optional<FileId> file_id(const std::filesystem::path& path);

}  // namespace zf
