// A fork-join pool of bound members. The calling thread is one of them.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/id_set.hpp"
#include "engine/waitable_counter.hpp"

namespace zf {

/// The CPUs of a pool with members that each may run on all of them, because neighbours share these: the
/// kernel then moves each member to a CPU that is free.
struct SharedCpus {
  CpuSet cpus;              ///< never empty
  std::size_t members = 1;  ///< at least 1
};

/// Binds each member, to a PU of its own or to CPUs that all share, and reads the binding back. Member 0 is
/// the thread that constructs the pool; it gets its old mask back when the pool ends. Not thread-safe: one
/// thread constructs, runs and destroys the pool.
class Pool {
 public:
  /// Members spin for `spin_ns` before they sleep. Give 0 if anything else needs these PUs, such as another
  /// member: a spinning member would keep it from the CPU.
  /// Throws Error(runtime_error) if a thread cannot be started or bound; then no thread is left behind.
  /// Precondition: pus is not empty, and names no PU twice unless spin_ns is 0.
  explicit Pool(const std::vector<Pu>& pus, Nanoseconds spin_ns = kSpinNs);

  /// Starts members that share their CPUs. They do not spin, because two of them, or a neighbour's thread,
  /// may meet on one CPU. Throws as the other constructor does.
  explicit Pool(const SharedCpus& shared);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  std::size_t size() const;

  /// Calls work(member) on every member at the same time, and returns when all calls have returned. `work`
  /// must not throw. Costs one fork and one join: a bounded spin, then a futex sleep.
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
