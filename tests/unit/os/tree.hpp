// Another machine as a folder: files below a temporary root that is removed after the test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "os/sysroot.hpp"

namespace zf {

/// Makes an empty folder, which is removed at the end.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "zf-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class Tree {
 public:
  /// Writes a file at an absolute path of the machine, with a newline at its end as the kernel does.
  Tree& file(const std::string& absolute, const std::string& text) {
    const auto path = folder_.path() / std::filesystem::path(absolute).relative_path();
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
    return *this;
  }
  /// Adds CPUs 0 … count-1, all online, and nodes with memory.
  Tree& machine(const std::string& cpus, const std::string& nodes) {
    file("/sys/devices/system/cpu/present", cpus);
    file("/sys/devices/system/cpu/online", cpus);
    return file("/sys/devices/system/node/has_memory", nodes);
  }
  SysRoot sysroot() const { return SysRoot(folder_.path()); }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  TestFolder folder_;
};

}  // namespace zf
