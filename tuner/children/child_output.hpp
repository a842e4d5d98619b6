// Work that may hang or crash, done by a child process that can be given up.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace zf {

struct ChildOutput {
  enum class End { done, late, died };
  End end = End::died;
  std::string text;  ///< what `work` returned; empty unless done
};

/// Runs `work` in a fork of this process and returns its text. After `deadline` the child is killed and not
/// waited for any further: a process inside a broken driver cannot be killed, and a thread there would keep
/// our own exit waiting. The child sees /dev/null as its standard streams and holds no other file of ours, so
/// that nobody who reads our output waits for it; it dies with us. Its environment is its own to change.
/// Throws Error(runtime_error) when no child can be made.
/// Call it before threads are started: of a fork's threads only the caller lives on.
ChildOutput output_of_child(const std::function<std::string()>& work, std::chrono::milliseconds deadline);

}  // namespace zf
