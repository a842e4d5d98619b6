// Turns the banners that hwloc writes to stderr into sentences of our own.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/file_descriptor.hpp"

namespace zf {

/// Keeps what is written to stderr from its construction until taken() or its end; then stderr is as before.
/// At its end, writes to stderr what was not taken, without control characters. Keeps nothing if stderr is
/// closed or no memory file can be made. For a process with one thread.
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

/// Messages on stderr from the time in which hwloc read a machine.
struct HwlocMessages {
  std::optional<std::string> complaint;  ///< of the first banner, as one sentence without its full stop:
                                         ///< hwloc found a contradiction and went on without some object
  std::string others;                    ///< the text without banners, unchanged
};

/// Tells hwloc's banners (boxes of asterisks) from the messages of others, also those between the lines of a
/// banner. Drops hwloc's line on a /sys without topology folders, which hwloc_view.hpp says in our words.
/// Pure.
HwlocMessages hwloc_messages(std::string_view text);

/// Returns the complaint in `text` and writes the messages of others to stderr, without control characters.
std::optional<std::string> take_complaint(const std::string& text);

}  // namespace zf
