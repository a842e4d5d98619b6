#include "topology/hwloc_complaints.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>
#include <utility>

#include "base/format.hpp"
#include "base/text.hpp"
#include "os/standard_streams.hpp"

namespace zf {

namespace {

/// Returns whether the line is the upper or the lower side of a box of asterisks.
bool is_frame(std::string_view line) {
  const auto end = line.find_first_not_of('*');
  return end >= 20 && (end == std::string_view::npos || line.substr(end) == "\n");
}

/// Returns whether the line says that /sys shows no cores. We say so ourselves (unknown_topology()).
bool is_on_missing_topology(std::string_view line) {
  return line.find("failed to find sysfs cpu topology directory") != std::string_view::npos;
}

/// Returns what hwloc complains of in its box, as one sentence; nothing if the box is not hwloc's.
std::optional<std::string> sentence_of(const std::string& box) {
  std::istringstream lines(box);
  std::string words;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("* ")) continue;
    line = line.substr(2);
    const bool head = line.starts_with("hwloc") && (line.find("received invalid") != std::string::npos ||
                                                    line.find("has encountered") != std::string::npos);
    const bool advice = line.starts_with("hwloc will now") || line.starts_with("The ") ||
                        line.starts_with("Otherwise") || line.starts_with("Please");
    if (inside && advice) break;
    if (inside) words += (words.empty() ? "" : " ") + line;
    inside = inside || head;
  }
  if (!inside) return std::nullopt;
  return format_text("the description of this machine contradicts itself, and hwloc left something out{}{}",
                     words.empty() ? "" : ": ", words);
}

}  // namespace

StderrKept::StderrKept() {
  std::fflush(stderr);
  FileDescriptor before(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0));
  FileDescriptor file(::memfd_create("hwloc's messages", MFD_CLOEXEC));
  if (!before.valid() || !file.valid() || ::dup2(file.get(), STDERR_FILENO) < 0) return;
  before_ = std::move(before);
  file_ = std::move(file);
}

StderrKept::~StderrKept() { print_stderr_text(strip_control_chars(taken())); }

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

HwlocMessages hwloc_messages(std::string_view text) {
  HwlocMessages messages;
  std::string box;     // the lines of a box of asterisks, from its first line on
  std::string beside;  // what others wrote while it was open
  while (!text.empty()) {
    const std::string_view line = text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
    text.remove_prefix(line.size());
    if (is_on_missing_topology(line)) continue;
    const bool frame = is_frame(line);
    const bool closes = frame && !box.empty();
    if (!frame && (box.empty() || line.front() != '*')) {
      (box.empty() ? messages.others : beside) += line;
      continue;
    }
    box += line;
    if (!closes && !text.empty()) continue;
    const auto sentence = sentence_of(box);
    if (sentence && !messages.complaint) messages.complaint = sentence;
    messages.others += (sentence ? "" : box) + beside;
    box.clear();
    beside.clear();
  }
  messages.others += box + beside;
  return messages;
}

std::optional<std::string> take_complaint(const std::string& text) {
  HwlocMessages messages = hwloc_messages(text);
  print_stderr_text(strip_control_chars(messages.others));
  return std::move(messages.complaint);
}

}  // namespace zf
