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

/// Changes the CPUs of the helpers as little as possible, so that each is in `mask` and is not `caller`, and
/// no two are the same as long as there are enough. If `mask` has only the caller's CPU, all helpers have it.
/// Pure.
void move_helpers(const CpuSet& mask, Pu caller, std::span<Pu> helpers);

/// Returns how many CPUs the calling thread may use, without allocating.
std::size_t count_cpus_of_this_thread();

/// The helpers run on the CPUs that the calling thread may use, besides the one where it is: they follow when
/// it has moved. Its own mask is never changed. Between two runs helpers spin for 30 us, then they sleep.
/// Where neighbours share the CPUs (share_cpus()) helpers have all of them, and never spin.
class OwnTeam final : public Team {
 public:
  OwnTeam();
  /// Ends the helpers.
  ~OwnTeam() override;

  /// Lets the next runs have so many members, at least 1. Starts the helpers that are missing; more than that
  /// wait. Throws Error(runtime_error) if a thread cannot be started. The team is as before then.
  void resize(std::size_t members);
  /// Lets the helpers of the next runs have all CPUs of the calling thread, or one each.
  void share_cpus(bool shared);
  std::size_t size() const override;

 private:
  void run_erased(Erased work, void* context) noexcept override;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zf
