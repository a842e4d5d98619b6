// The pinned fork-join pool: one member per PU, the calling thread among them.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/id_set.hpp"

namespace zf {

/// Members 0..n-1 are bound to pus[0..n-1], one each, and read back. Member 0 is the thread that built the
/// pool: it is bound as well, and gets its old mask back when the pool ends.
/// Not thread-safe: one owner, who builds it, runs it and destroys it on one thread.
class Pool {
 public:
  /// Throws Error(runtime_error) when a thread cannot be made or bound; then none is left behind.
  /// Precondition: pus not empty, no PU twice.
  explicit Pool(const std::vector<Pu>& pus);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  std::size_t size() const;

  /// Calls work(member) once on every member at the same time and returns when all have returned.
  /// `work` must not throw. One fork and one join: a bounded spin, then a futex sleep.
  template <class Work>
  void run(Work&& work) {
    using Plain = std::remove_reference_t<Work>;
    run_erased([](void* context, std::size_t member) { (*static_cast<Plain*>(context))(member); },
               const_cast<void*>(static_cast<const void*>(&work)));
  }

 private:
  using Erased = void (*)(void* context, std::size_t member);
  void run_erased(Erased work, void* context) noexcept;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zf
