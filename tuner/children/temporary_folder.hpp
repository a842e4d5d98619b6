// A folder for files that only this command and its children need.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace zf {

/// Makes a temporary folder, in TMPDIR or, if that refuses, in /tmp or /dev/shm. The destructor removes it
/// with its content. Throws Error(runtime_error) with the causes if it cannot be made.
class TemporaryFolder {
 public:
  /// `name`: the first part of the folder's name.
  explicit TemporaryFolder(const std::string& name);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  /// Writes a file of the folder. Throws Error(runtime_error) if it cannot be written whole.
  void write(const std::string& name, std::string_view text) const;

 private:
  std::filesystem::path path_;
};

}  // namespace zf
