// Writes files so that no reader ever sees half of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "base/file_descriptor.hpp"

namespace zf {

/// A temporary file that replaces `path` in one step, or never. A reader of `path` finds the old file or the
/// whole new one, also after a power cut. If `path` is a link, the file that it leads to is replaced. Only a
/// regular file is replaced: write_target() has the rules.
///
/// A new file has mode 0644 within the umask. One that replaces a file keeps the permission bits of that one,
/// and its group and owner where this process may set them; if it may not set the group, the group gets no
/// more than others. Another user's file in a folder that others may write in passes on nothing. The
/// temporary file is never more open than the file will be.
///
/// Until commit() the temporary file has no name, so a process that is killed leaves nothing. Only a kill
/// between the two calls that name and move it (linkat, rename) leaves the whole new file, as ".NAME.tmp"
/// beside `path`. Where every file has a name (NFS, Lustre), the temporary file has that name from the
/// beginning, and where a sandbox refuses linkat, from commit() on. The next writer of `path` with the same
/// user removes what a killed one left there.
///
/// While another living writer has the name, the temporary file is called ".NAME.PID.TIME.N.tmp". A file that
/// had a name before commit() is called so too, between the last two calls of commit() (rename, rename). If
/// its writer is killed then, it stays.
///
/// A living writer is known by its lock (flock). Where files cannot be locked, it is known by writing: a file
/// with a size and time of change that stay the same for 2 s is taken for abandoned. If its writer lives all
/// the same, its commit() fails.
class AtomicFile {
 public:
  /// Creates the temporary file. This and every other function throws Error(runtime_error) with the path if
  /// it fails; the old file is then untouched (but see commit()), and the temporary file is removed. Where
  /// files cannot be locked, this waits for up to 2 s if a temporary file is there. So does commit() if the
  /// file has no name.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Writes bytes at an offset. Ranges that are never written read as zeros.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void set_size(std::uint64_t bytes);
  /// Returns the temporary file, for code that writes it by a descriptor or by its name in /proc.
  int descriptor() const { return file_.get(); }
  /// Syncs the file, renames it over `path`, and syncs the folder. If only the last fails, it throws although
  /// the new file is there, and says so.
  void commit();

 private:
  /// Who owns a file, and who may do what with it.
  struct Permissions {
    unsigned owner = 0;
    unsigned group = 0;
    unsigned mode = 0;  ///< the nine bits rwxrwxrwx
  };

  [[noreturn]] void fail(int error) const;
  /// Says only if it can be seen that what was there before is unchanged.
  [[noreturn]] void fail_rename(int error) const;
  /// Copies the file without a name to one that has a name, and goes on with that one.
  void move_to_named_file();
  /// Links the unnamed file where the next writer finds it. Returns whether other writers see its lock.
  bool give_stable_name();
  /// Gives the file a name that no other writer touches. Throws Error(runtime_error) if another writer has
  /// taken its former name.
  void take_own_name();
  /// Gives the temporary file the owner, group and mode of the file that it replaces, as far as that is
  /// allowed.
  void take_permissions() const;

  std::filesystem::path name_;           ///< as the caller gave it
  std::filesystem::path path_;           ///< that with its links followed
  std::optional<Permissions> replaced_;  ///< of the file at `path`; absent: there was none
  std::filesystem::path temporary_;      ///< empty as long as the file has no name
  FileDescriptor file_;
};

/// Writes a text through an AtomicFile.
void write_text_file_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace zf
