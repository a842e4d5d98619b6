// The calling thread and helpers of ours, for a process without an OpenMP runtime.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/id_set.hpp"
#include "engine/team.hpp"

namespace zf {

/// The CPU of a helper that may run on any CPU of the calling thread.
inline constexpr Pu kUnbound{-1};

/// Moves as few helpers as possible, so that each has a CPU of `mask` other than `caller`. No two helpers get
/// the same CPU if `mask` has enough. If `mask` has only the caller's CPU, all helpers get it. Pure.
void move_helpers(const CpuSet& mask, Pu caller, std::span<Pu> helpers);

/// Returns how many CPUs the calling thread may use, without allocating.
std::size_t count_cpus_of_this_thread();

/// The helpers run on the CPUs that the calling thread may use, except the one on which that thread runs. If
/// the thread moves, the helpers move too. The thread's own mask is never changed. Between two runs helpers
/// spin for 30 us, then they sleep. Where neighbours share the CPUs (share_cpus()) helpers have all of them,
/// and never spin.
class OwnTeam final : public Team {
 public:
  OwnTeam();
  /// Ends the helpers.
  ~OwnTeam() override;

  /// Sets the number of members of the next runs, at least 1. Starts helpers that are missing; helpers that
  /// are too many wait. Throws Error(runtime_error), and leaves the team as it was, if a thread cannot be
  /// started.
  void resize(std::size_t members);
  /// Gives each helper of the next runs all CPUs of the calling thread, or one.
  void share_cpus(bool shared);
  std::size_t size() const override;

 private:
  void run_erased(Erased work, void* context) noexcept override;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zf
