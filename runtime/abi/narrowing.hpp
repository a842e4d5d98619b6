// Narrows this process to the training side of its home while the optimizer uses the other side.
#pragma once

#include <cstddef>
#include <string>

#include "base/id_set.hpp"

namespace zf {

/// While it exists, the threads of this process that had the whole home have the training CPUs.
class Narrowing {
 public:
  /// Moves the threads (move_threads()). problem() then says what the kernel refused. Throws nothing but
  /// std::bad_alloc.
  Narrowing(const CpuSet& home, const CpuSet& training);
  /// Gives the home back to every thread with exactly the training CPUs as mask: those that were moved, and
  /// those that they have started since. Does nothing if no thread was moved, or while another Narrowing of
  /// this process has the same home. The destructor must not run in a forked child of the process.
  ~Narrowing();
  Narrowing(const Narrowing&) = delete;
  Narrowing& operator=(const Narrowing&) = delete;

  /// Returns how many threads were moved.
  std::size_t moved() const { return moved_; }
  /// Returns why a thread may still have the home; empty: none has.
  const std::string& problem() const { return problem_; }

 private:
  const CpuSet home_;
  const CpuSet training_;
  std::size_t moved_ = 0;
  std::string problem_;
  bool counted_ = false;  ///< among the handles that keep the process narrow
};

}  // namespace zf
