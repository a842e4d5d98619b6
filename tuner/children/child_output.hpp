// Work that may hang or crash, done by a child process that can be given up.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/file_descriptor.hpp"

namespace zf {

/// Both ends of a pipe, close-on-exec. Throws Error(runtime_error) if none can be made.
struct Pipe {
  Pipe();
  FileDescriptor in;
  FileDescriptor out;
};

struct ChildOutput {
  enum class End { done, late, died };
  End end = End::died;
  std::string text;  ///< what `work` returned; empty unless done
};

/// Runs `work` in a fork of this process and returns its text. After `deadline` the child is killed and given
/// 50 ms to be gone: a process inside a broken driver cannot be killed, and a thread there would keep our own
/// exit waiting. The child sees /dev/null as its standard streams and has no other file of ours open, so that
/// nobody who reads our output waits for it. It dies with us. It may change its own environment.
/// Throws Error(runtime_error) if no child can be made.
/// Call it before threads are started: of all threads, a fork copies only the calling one.
ChildOutput output_of_child(const std::function<std::string()>& work, std::chrono::milliseconds deadline);

}  // namespace zf
