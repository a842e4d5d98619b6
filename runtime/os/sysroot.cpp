#include "os/sysroot.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/file_descriptor.hpp"
#include "os/folder.hpp"

namespace zf {
namespace {

/// No file that we read below /proc or /sys comes near this size. A longer one is something else.
constexpr std::size_t kMaxBytes = std::size_t{16} << 20;

}  // namespace

SysRoot::SysRoot(std::filesystem::path root) : root_(std::move(root)) {
  std::error_code error;
  if (!std::filesystem::is_directory(root_, error)) {
    throw Error(Exit::usage, "--sysroot " + root_.string() + ": not a folder",
                "give the folder that holds the other machine's proc/ and sys/");
  }
  // Turns "//" and "/." into "/", which means this machine.
  root_ = std::filesystem::canonical(root_, error);
  if (error) throw_errno(error.value(), "--sysroot " + root_.string());
}

std::optional<std::string> SysRoot::read(const std::filesystem::path& absolute) const {
  // With O_NONBLOCK a FIFO in a foreign tree cannot stop us. Files of /proc and /sys ignore the flag.
  const FileDescriptor file(::open(at(absolute).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return std::nullopt;

  // Files of /proc and /sys have 0 bytes in stat(), so read to the end.
  std::string text;
  std::array<char, 16384> chunk;
  for (;;) {
    const ssize_t got = ::read(file.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || text.size() > kMaxBytes) return std::nullopt;
    if (got == 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

bool SysRoot::exists(const std::filesystem::path& absolute) const {
  return ::access(at(absolute).c_str(), F_OK) == 0;
}

std::vector<std::string> SysRoot::list(const std::filesystem::path& absolute) const {
  std::vector<std::string> names;
  for_each_entry(at(absolute).c_str(), [&](std::string_view name) { names.emplace_back(name); });
  std::sort(names.begin(), names.end());
  return names;
}

std::filesystem::path SysRoot::at(const std::filesystem::path& absolute) const {
  return is_this_machine() ? absolute : root_ / absolute.relative_path();
}

}  // namespace zf
