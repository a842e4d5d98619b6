// Runs work that may hang or crash in a child process that can be abandoned.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/file_descriptor.hpp"

namespace zf {

/// Both ends of a pipe, close-on-exec. The constructor throws Error(runtime_error) if no pipe can be made.
struct Pipe {
  Pipe();
  FileDescriptor in;
  FileDescriptor out;
};

struct ChildOutput {
  enum class End { done, late, died };
  End end = End::died;
  std::string text;  ///< the text that `work` returned; empty unless done
};

/// Runs `work` in a fork of this process and returns its text. After `deadline` the child is killed. The call
/// waits another 50 ms for its end, not longer: a process inside a broken driver cannot be killed. (A thread
/// there would block our own exit, so the work is in a process.) The child's standard streams are /dev/null
/// and it has no other file of ours open, so that no reader of our output waits for it. It dies with this
/// process. It may change its own environment. Throws Error(runtime_error) if no child can be made. Call it
/// before threads are started: a fork copies only the calling thread.
ChildOutput output_of_child(const std::function<std::string()>& work, std::chrono::milliseconds deadline);

}  // namespace zf
