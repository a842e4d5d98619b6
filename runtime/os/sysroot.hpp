// /proc and /sys of this machine, or of another one kept as a folder of files (what hwloc calls FSROOT).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace zf {

class SysRoot {
 public:
  /// The machine we run on.
  SysRoot() = default;
  /// Another machine: `root`/proc/..., `root`/sys/... Throws Error(usage) if `root` is not a folder.
  explicit SysRoot(std::filesystem::path root);

  bool is_this_machine() const { return root_ == "/"; }
  const std::filesystem::path& path() const { return root_; }

  /// The whole file at an absolute path as seen by the machine, without its last newline;
  /// nullopt if it cannot be read. Never throws: a partial machine says what is missing, one level up.
  std::optional<std::string> read(const std::filesystem::path& absolute) const;
  /// Names (not paths) in a folder, sorted; empty if it cannot be read.
  std::vector<std::string> list(const std::filesystem::path& absolute) const;

 private:
  std::filesystem::path at(const std::filesystem::path& absolute) const;

  std::filesystem::path root_ = "/";
};

}  // namespace zf
