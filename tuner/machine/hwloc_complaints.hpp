// Turns the banners that hwloc writes to stderr into sentences of our own.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/file_descriptor.hpp"

namespace zf {

/// Keeps what is written to stderr from its construction until taken() or its end; then stderr is as before.
/// At its end, writes to stderr what nobody took. Keeps nothing if stderr is closed or no memory file can be
/// made. For a process with one thread.
class StderrKept {
 public:
  StderrKept();
  ~StderrKept();
  StderrKept(const StderrKept&) = delete;
  StderrKept& operator=(const StderrKept&) = delete;

  /// Gives stderr back and returns what was written; empty if called again.
  std::string taken();

 private:
  FileDescriptor before_;
  FileDescriptor file_;
};

/// Returns what the first banner in `text` complains of, as one sentence without its full stop: hwloc found a
/// contradiction and went on without some object. Returns nothing if there is no banner. Pure.
std::optional<std::string> hwloc_complaint(std::string_view text);

/// Returns hwloc_complaint(text). If there is no banner, writes the text to stderr: somebody else's message
/// is not lost.
std::optional<std::string> complaint_or_passed_on(const std::string& text);

}  // namespace zf
