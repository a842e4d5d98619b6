// The engine of steps in place: one per process, shared by all handles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "engine/isa.hpp"
#include "engine/team.hpp"
#include "local/dealing.hpp"
#include "local/openmp_team.hpp"
#include "local/own_team.hpp"
#include "local/placing.hpp"
#include "local/process_id.hpp"
#include "local/reading.hpp"
#include "local/step_list.hpp"

namespace zf {

/// Which threads a handle wants for its steps.
struct TeamWish {
  bool openmp = true;        ///< those of an OpenMP runtime, if there is one
  std::size_t threads = 0;   ///< of the own team; 0: one for each CPU that the calling thread may use
  bool shares_cpus = false;  ///< neighbours share the CPUs: the own team pins no thread
};

/// What the engine has done in this process.
struct LocalFigures {
  std::string_view team = "";    ///< of the last step; "": there was none
  std::size_t last_threads = 0;  ///< that took part in it
  std::size_t stolen = 0;        ///< parts of it (Dealing::stolen())
  std::uint64_t steps = 0;
  std::uint64_t last_step_ns = 0;
  std::uint64_t total_step_ns = 0;
};

/// Any thread may call. Calls take turns. In a forked child the calling thread works alone: the threads of a
/// team are missing there. It has an engine of its own, since another thread may have held the parent's.
class LocalStepper {
 public:
  /// Returns the engine of this process. Throws Error(usage) if ZF_ISA is wrong.
  static LocalStepper& of_this_process();

  /// Counts a handle. Looks for an OpenMP runtime if none was found yet: it may be loaded later than the
  /// first handle is made.
  void add_handle();
  /// Ends the helpers if it was the last handle. Does nothing in a process without an engine.
  static void remove_handle() noexcept;

  Isa isa() const { return isa_; }
  /// Returns the path of the OpenMP runtime; "": none was found.
  std::string openmp_path();

  /// Calls fill(list.tensors, list.counters), steps the tensors, and counts. If fill() throws, or
  /// StepList::prepare(), or if a helper cannot be started (Error(runtime_error)), nothing is stepped.
  template <class Fill>
  void step(StepList& list, const TeamWish& wish, Fill fill) {
    const std::lock_guard turn(mutex_);
    list.tensors.clear();
    list.counters.clear();
    fill(list.tensors, list.counters);
    step_list(list, wish);
  }

  /// Calls place_memory() with the team of a step, or with the caller alone if helpers cannot be started.
  std::string place(const TeamWish& team, const MemoryWish& wish, void* start, std::size_t bytes);

  /// Reads all arrays by the calling thread. It waits for no other call.
  void read_alone(std::span<Reading> readings, const ReadWish& what) const {
    zf::read_alone(readings, what, isa_);
  }
  /// Reads all arrays by the team of a step, or by the calling thread alone if they are small. If a helper
  /// cannot be started (Error(runtime_error)), nothing is read.
  void read(std::span<Reading> readings, const ReadWish& what, const TeamWish& wish);

  LocalFigures figures();
  /// What the calling thread's next step would use.
  struct NextTeam {
    std::string_view name;
    std::size_t threads;
  };
  NextTeam next_team(const TeamWish& wish);

 private:
  LocalStepper(LocalStepper* former, const ProcessId& process);

  /// Who works: the name for people, and how many threads are asked for.
  enum class Choice { caller, openmp, own };
  struct Chosen {
    Choice choice;
    std::size_t threads;
    bool shares_cpus = false;  ///< TeamWish::shares_cpus
  };
  Chosen choose(const TeamWish& wish) const;
  /// Returns the team, and starts helpers if it needs more.
  Team& ready(const Chosen& chosen);
  void step_list(StepList& list, const TeamWish& wish);

  const ProcessId process_;
  /// The parent's, or null. Nothing of it may be used here. It is kept, so that its memory is not called
  /// lost.
  LocalStepper* const former_;
  const Isa isa_;
  const std::size_t prefetch_distance_;
  std::mutex mutex_;  ///< guards all that follows
  std::size_t handles_ = 0;
  std::unique_ptr<OpenmpTeam> openmp_;
  std::unique_ptr<OwnTeam> own_;
  CallerAlone caller_;
  Dealing dealing_;
  LocalFigures figures_;
};

}  // namespace zf
