// The fuzzed bytes as a file, for parsers that read files.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

/// Returns the path of a file with these bytes. It is the same file each time, and is removed at the end.
inline const std::filesystem::path& fuzzed_file(const std::uint8_t* data, std::size_t size) {
  struct File {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("zf-fuzzed-" + std::to_string(::getpid()));
    int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ~File() { ::unlink(path.c_str()); }
  };
  static const File file;
  if (::ftruncate(file.fd, 0) != 0 || ::pwrite(file.fd, data, size, 0) != static_cast<ssize_t>(size))
    std::abort();
  return file.path;
}
