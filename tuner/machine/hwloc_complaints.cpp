#include "machine/hwloc_complaints.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <sstream>
#include <utility>

namespace zf {

StderrKept::StderrKept() {
  std::fflush(stderr);
  FileDescriptor before(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0));
  FileDescriptor file(::memfd_create("hwloc's messages", MFD_CLOEXEC));
  if (!before.valid() || !file.valid() || ::dup2(file.get(), STDERR_FILENO) < 0) return;
  before_ = std::move(before);
  file_ = std::move(file);
}

StderrKept::~StderrKept() { std::fputs(taken().c_str(), stderr); }

std::string StderrKept::taken() {
  if (!file_.valid()) return {};
  std::fflush(stderr);
  ::dup2(before_.get(), STDERR_FILENO);
  std::string text;
  std::array<char, 4096> chunk;
  ::lseek(file_.get(), 0, SEEK_SET);
  for (ssize_t got = 0; (got = ::read(file_.get(), chunk.data(), chunk.size())) > 0;)
    text.append(chunk.data(), static_cast<std::size_t>(got));
  before_ = FileDescriptor();
  file_ = FileDescriptor();
  return text;
}

std::optional<std::string> hwloc_complaint(std::string_view text) {
  std::istringstream lines{std::string(text)};
  std::string words;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("* ")) continue;  // a frame, an empty line, or somebody else's
    line = line.substr(2);
    const bool head = line.find("received invalid") != std::string::npos ||
                      line.find("has encountered") != std::string::npos;
    const bool advice = line.starts_with("hwloc will now") || line.starts_with("The ") ||
                        line.starts_with("Otherwise") || line.starts_with("Please");
    if (inside && advice) break;
    if (inside) words += (words.empty() ? "" : " ") + line;
    inside = inside || head;
  }
  if (!inside) return std::nullopt;
  return fmt::format("the description of this machine contradicts itself, and hwloc left something out{}{}",
                     words.empty() ? "" : ": ", words);
}

std::optional<std::string> complaint_or_passed_on(const std::string& text) {
  auto complaint = hwloc_complaint(text);
  if (!complaint) std::fputs(text.c_str(), stderr);
  return complaint;
}

}  // namespace zf
