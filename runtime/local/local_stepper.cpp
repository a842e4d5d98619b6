#include "local/local_stepper.hpp"

#include <algorithm>
#include <atomic>

#include "base/error.hpp"
#include "os/affinity.hpp"

namespace zf {
namespace {

/// A step of so few elements takes about as long as the start of a team (measured: docs/runtime.md).
constexpr std::size_t kAloneElements = 8192;

/// Reading so many bytes takes about as long as the start of a team.
constexpr std::size_t kAloneBytes = std::size_t{128} << 10;

/// The engine is never destroyed, because a program may step until its very end.
constinit std::atomic<LocalStepper*> g_current = nullptr;

constexpr std::string_view kTeamNames[] = {"caller", "openmp", "own"};

}  // namespace

LocalStepper& LocalStepper::of_this_process() {
  const ProcessId process = this_process();
  LocalStepper* current = g_current.load(std::memory_order_acquire);
  while (current == nullptr || current->process_ != process) {
    // No lock: in a forked child its holder may be missing.
    std::unique_ptr<LocalStepper> next(new LocalStepper(current, process));
    if (g_current.compare_exchange_strong(current, next.get(), std::memory_order_acq_rel)) {
      current = next.release();
    }
  }
  return *current;
}

LocalStepper::LocalStepper(LocalStepper* former, const ProcessId& process)
    : process_(process),
      former_(former),
      isa_(chosen_isa()),
      prefetch_distance_(preferred_prefetch_distance()) {}

void LocalStepper::add_handle() {
  const std::lock_guard turn(mutex_);
  if (!openmp_) openmp_ = OpenmpTeam::find();
  ++handles_;
}

void LocalStepper::remove_handle() noexcept {
  LocalStepper* const current = g_current.load(std::memory_order_acquire);
  if (current == nullptr || current->process_ != this_process()) return;
  const std::lock_guard turn(current->mutex_);
  // A forked child may close handles that the parent made.
  if (current->handles_ > 0) --current->handles_;
  if (current->handles_ == 0) current->own_.reset();
}

std::string LocalStepper::openmp_path() {
  const std::lock_guard turn(mutex_);
  return openmp_ ? openmp_->path() : "";
}

LocalStepper::Chosen LocalStepper::choose(const TeamWish& wish) const {
  constexpr Chosen alone = {Choice::caller, 1};
  if (process_.is_forked() || former_ != nullptr) return alone;
  if (openmp_ && openmp_->is_inside_region()) return alone;
  if (openmp_ && wish.openmp) {
    const std::size_t threads = openmp_->size();
    return threads == 1 ? alone : Chosen{Choice::openmp, threads};
  }
  const std::size_t threads = wish.threads != 0 ? wish.threads : count_cpus_of_this_thread();
  return threads <= 1 ? alone : Chosen{Choice::own, threads, wish.shares_cpus};
}

Team& LocalStepper::ready(const Chosen& chosen) {
  switch (chosen.choice) {
    case Choice::openmp:
      return *openmp_;
    case Choice::own:
      if (!own_) own_ = std::make_unique<OwnTeam>();
      own_->resize(chosen.threads);
      own_->share_cpus(chosen.shares_cpus);
      return *own_;
    case Choice::caller:
      break;
  }
  return caller_;
}

void LocalStepper::step_list(StepList& list, const TeamWish& wish) {
  if (list.tensors.empty()) return;
  const Nanoseconds begin = now_ns();
  std::size_t elements = 0;
  for (const TensorStep& tensor : list.tensors) elements += tensor.elements;
  const Chosen chosen = elements <= kAloneElements ? Chosen{Choice::caller, 1} : choose(wish);
  Team& team = ready(chosen);
  list.prepare(team.size());

  std::atomic<std::size_t> threads = 1;
  figures_.stolen = 0;
  for (const Parts& batch : list.batches()) {
    dealing_.deal(batch);
    team.run([&](std::size_t member, std::size_t members) {
      if (member == 0) threads.store(members, std::memory_order_relaxed);
      dealing_.work(member, members, [&](const Part& part) {
        step_part(list.tensors[part.tensor], part.slice, prefetch_distance_);
      });
    });
    figures_.stolen += dealing_.stolen();
  }
  for (float* const counter : list.counters) *counter += 1.0F;

  figures_.team = kTeamNames[static_cast<std::size_t>(chosen.choice)];
  figures_.last_threads = threads.load(std::memory_order_relaxed);
  figures_.last_step_ns = static_cast<std::uint64_t>(now_ns() - begin);
  figures_.total_step_ns += figures_.last_step_ns;
  ++figures_.steps;
}

std::string LocalStepper::place(const TeamWish& team, const MemoryWish& wish, void* start,
                                std::size_t bytes) {
  const std::lock_guard turn(mutex_);
  std::string refusal;
  const auto ready_team = [&]() -> Team& {
    try {
      return ready(choose(team));
    } catch (const Error& error) {
      refusal = error.what();
      return caller_;
    }
  };
  const std::string notes = place_memory(ready_team(), wish, start, bytes);
  return refusal.empty() || notes.empty() ? refusal + notes : refusal + "; " + notes;
}

void LocalStepper::read(std::span<Reading> readings, const ReadWish& what, const TeamWish& wish) {
  std::size_t bytes = 0;
  for (const Reading& reading : readings) bytes += reading.bytes();
  if (bytes <= kAloneBytes) return read_alone(readings, what);
  const std::lock_guard turn(mutex_);
  read_by(ready(choose(wish)), dealing_, readings, what, isa_);
}

LocalFigures LocalStepper::figures() {
  const std::lock_guard turn(mutex_);
  return figures_;
}

LocalStepper::NextTeam LocalStepper::next_team(const TeamWish& wish) {
  const std::lock_guard turn(mutex_);
  const Chosen chosen = choose(wish);
  return {kTeamNames[static_cast<std::size_t>(chosen.choice)], chosen.threads};
}

}  // namespace zf
