// Reads /proc and /sys of this machine, or of another one that is kept as a folder of files (hwloc: FSROOT).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace zf {

class SysRoot {
 public:
  /// Reads the machine that we run on.
  SysRoot() = default;
  /// Reads another machine from `root`/proc/... and `root`/sys/... Throws Error(usage) if `root` is not a
  /// folder.
  explicit SysRoot(std::filesystem::path root);

  bool is_this_machine() const { return root_ == "/"; }
  const std::filesystem::path& path() const { return root_; }

  /// Returns the whole file at an absolute path of that machine, without its last newline; nullopt if it
  /// cannot be read. Never throws: the caller reports what is missing.
  std::optional<std::string> read(const std::filesystem::path& absolute) const;
  /// Returns true if there is a file or a folder at this path.
  bool exists(const std::filesystem::path& absolute) const;
  /// Returns the names (not paths) in a folder, sorted; empty if it cannot be read.
  std::vector<std::string> list(const std::filesystem::path& absolute) const;

 private:
  std::filesystem::path at(const std::filesystem::path& absolute) const;

  std::filesystem::path root_ = "/";
};

}  // namespace zf
