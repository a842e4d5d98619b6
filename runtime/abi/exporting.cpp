#include "abi/exporting.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <stop_token>
#include <system_error>
#include <utility>

#include "abi/state_file.hpp"
#include "abi/status.hpp"
#include "base/format.hpp"
#include "base/start_thread.hpp"
#include "base/text.hpp"
#include "os/memory_limits.hpp"

namespace zf {
namespace {

constexpr std::chrono::milliseconds kLookInterval{2};
constexpr std::chrono::milliseconds kSlice{50};
/// Where all CPUs are busy, the thread gets a seventieth of what another one has. With 10, a tenth, steps
/// beside it took 1.16 of others and not 1.05, and an export 2.3 of a blocking one and not 2.1 (60M
/// parameters, 2 CPUs of an AMD EPYC).
constexpr int kNicer = 19;
constexpr const char* kNeedsNoRoom = "use zf_export_state, which needs none";
constexpr const char* kHold = "call zf_save_begin first";

constexpr std::uint64_t kLeastRoom = 2 * kImageUnit;  // one is written while another one is copied

/// An export that is given up.
struct GivenUp {};

/// Returns what memory has room for.
std::uint64_t free_memory(const Allowed& allowed) {
  const MemoryLimits limits = read_memory_limits(SysRoot(), allowed);
  std::uint64_t left = limits.available.value_or(std::numeric_limits<std::uint64_t>::max());
  if (allowed.memory_bytes && limits.cgroup_used)
    left = std::min(left, *allowed.memory_bytes - std::min(*allowed.memory_bytes, *limits.cgroup_used));
  return left;
}

}  // namespace

std::uint64_t most_room_for_saving(std::uint64_t image_bytes, const Environment& environment) {
  const std::uint64_t units = std::max((image_bytes + kImageUnit - 1) / kImageUnit, std::uint64_t{1});
  const auto mib = number_in(environment, "ZF_EXPORT_MIB", 2);
  return (mib ? std::min(units, static_cast<std::uint64_t>(mib->value)) : units) * kImageUnit;
}

void check_saved_area(const Arena& arena) {
  if (arena.has_saved_area()) return;
  throw AbiError(ZF_ERROR_SYSTEM, "`ulimit -f` or `ulimit -v` leaves no room for a copy of the arena",
                 format_text("raise it, or {}", kNeedsNoRoom));
}

std::uint64_t room_for_saving(const Arena& arena, const Allowed& allowed, std::uint64_t most) {
  check_saved_area(arena);
  const std::uint64_t least = std::min(most, kLeastRoom);
  const std::uint64_t left = free_memory(allowed);
  const std::uint64_t fits =
      std::max(left - left / 9, arena.control().save_room.load());  // training takes some, too
  const std::uint64_t room = std::min(fits, most);
  if (room >= least) return room / kImageUnit * kImageUnit;
  throw AbiError(ZF_ERROR_SYSTEM,
                 format_text("an export beside the training needs {} for its copy, and there is room for {}",
                             print_bytes(least), print_bytes(room)),
                 kNeedsNoRoom);
}

Exporting::~Exporting() = default;  // the thread ends first: it is the last member

void Exporting::check_idle() {
  const std::lock_guard lock(mutex_);
  if (hold_ == Hold::held)
    throw AbiError(ZF_ERROR_BUSY, "a copy of the state is held", "call zf_save_end first");
  if (!free_given_up()) {
    throw AbiError(ZF_ERROR_BUSY,
                   "the optimizer has not stopped copying the state, which zf_save_end has given up",
                   "call zf_wait first");
  }
  if (is_running_) {
    throw AbiError(ZF_ERROR_BUSY, format_text("the export to {} is not done", path_.string()),
                   "call zf_export_wait first");
  }
  if (const std::exception_ptr failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
}

void Exporting::begin(std::unique_ptr<AtomicFile> file, const std::filesystem::path& path,
                      const std::function<std::uint64_t()>& submit, std::function<bool()> is_lost) {
  check_idle();
  thread_ = {};  // has ended
  const std::lock_guard lock(mutex_);
  thread_ = start_thread<std::jthread>(
      "the thread that writes an export",
      [this, file = std::move(file), is_lost = std::move(is_lost)](const std::stop_token& given_up) mutable {
        run(given_up, std::move(file), is_lost);
      });
  // The thread waits for the mutex. If nothing can be submitted, it has nothing to write.
  path_ = path;
  is_running_ = true;
  ticket_ = 0;
  try {
    ticket_ = submit();
  } catch (...) {
    is_running_ = false;
    throw;
  }
}

void Exporting::run(const std::stop_token& given_up, std::unique_ptr<AtomicFile> file,
                    const std::function<bool()>& is_lost) {
  pthread_setname_np(pthread_self(), "zf-export");
  std::uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    ticket = ticket_;
  }
  if (ticket == 0) return;
  // nice() is for this thread alone, on Linux. A thread that steps wait for stays as it is.
  if (!goes_in_rounds()) static_cast<void>(::nice(kNicer));
  std::exception_ptr failure;
  const auto check = [&](const std::function<bool()>& is_there) {
    try {
      check_saving(is_there, is_lost);
    } catch (const AbiError&) {
      if (given_up.stop_requested()) throw GivenUp();  // let_steps_go() fails a copy that it gives up
      throw;
    }
    if (given_up.stop_requested()) throw GivenUp();
  };
  const auto await = [&](const std::function<bool()>& is_there) {
    for (; !is_there(); std::this_thread::sleep_for(kLookInterval)) check(is_there);
  };
  const auto await_saved = [&](std::size_t group, std::uint64_t end) {
    if (given_up.stop_requested()) throw GivenUp();
    await([&] { return is_saved(arena_, group, end); });
  };
  const auto await_steps = [&] {
    await([&] { return is_done(ticket); });
    check([] { return true; });
  };
  try {
    write_saved_file(*file, arena_, await_saved, await_steps);
  } catch (const GivenUp&) {
    failure = std::make_exception_ptr(AbiError(
        ZF_TIMEOUT,
        format_text("the export to {} was given up: it was not done when the optimizer had to end; the "
                    "old file is untouched",
                    path_.string()),
        "call zf_export_wait before zf_end and zf_close"));
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) stop_saving(given_up, ticket, is_lost);
  file.reset();
  const std::lock_guard lock(mutex_);
  failure_ = std::move(failure);  // the thread that waits frees it
  is_running_ = false;
  ended_.notify_all();
}

bool Exporting::is_done(std::uint64_t ticket) const {
  return arena_.control().completed.load(std::memory_order_seq_cst) >= ticket;
}

bool Exporting::goes_in_rounds() const {
  return arena_.control().save_room.load() < arena_.control().image_bytes;
}

void Exporting::check_saving(const std::function<bool()>& is_there,
                             const std::function<bool()>& is_lost) const {
  if (arena_.control().save_failed.load(std::memory_order_acquire) != 0)
    throw AbiError(ZF_ERROR_SYSTEM, "memory ran out for the copy of what is exported", kNeedsNoRoom);
  const bool is_left = is_lost();  // asked first: what is there then stays there
  if (!is_left || is_there()) return;
  throw AbiError(ZF_WORKER_DIED, "the optimizer died before it had copied what is exported",
                 "the old file is untouched");
}

void Exporting::stop_saving(const std::stop_token& given_up, std::uint64_t ticket,
                            const std::function<bool()>& is_lost) const {
  arena_.control().save_failed.store(1, std::memory_order_relaxed);
  while (!is_done(ticket) && !is_lost() && !given_up.stop_requested())
    std::this_thread::sleep_for(kLookInterval);
  drop_copy(ticket);
}

void Exporting::drop_copy(std::uint64_t ticket) const {
  if (!is_done(ticket)) return;  // the worker may still write it
  ControlBlock& control = arena_.control();
  if (control.save_reserved.load() >= control.save_room.load()) return;  // has its memory
  arena_.free_saved();
  control.save_room.store(0);
  control.save_reserved.store(0);
}

void Exporting::hold(const std::function<std::uint64_t()>& submit, std::function<bool()> is_lost) {
  check_idle();
  const std::lock_guard lock(mutex_);
  ticket_ = submit();
  is_lost_ = std::move(is_lost);
  hold_ = Hold::held;
}

bool Exporting::wait_held(Nanoseconds deadline) {
  for (;; std::this_thread::sleep_for(kLookInterval)) {
    {
      const std::lock_guard lock(mutex_);
      if (hold_ != Hold::held) throw AbiError(ZF_ERROR_USAGE, "no copy of the state is held", kHold);
      const auto is_there = [this] { return is_done(ticket_); };
      const bool was_there = is_there();
      check_saving(is_there, is_lost_);
      if (was_there) return true;
    }
    if (now_ns() >= deadline) return false;
  }
}

ArrayPlace Exporting::held(const GroupBlock& group, ArrayKind kind) {
  const std::lock_guard lock(mutex_);
  if (hold_ != Hold::held) throw AbiError(ZF_ERROR_USAGE, "no copy of the state is held", kHold);
  return arena_.saved(group.image_begin(kind), group.image_bytes(kind));
}

bool Exporting::release(Nanoseconds deadline) {
  for (;; std::this_thread::sleep_for(kLookInterval)) {
    {
      const std::lock_guard lock(mutex_);
      if (hold_ == Hold::held) {
        hold_ = Hold::given_up;
        if (!is_done(ticket_)) arena_.control().save_failed.store(1, std::memory_order_relaxed);
      }
      if (free_given_up()) return true;
    }
    if (now_ns() >= deadline) return false;
  }
}

bool Exporting::free_given_up() {
  if (hold_ != Hold::given_up) return true;
  if (!is_done(ticket_) && !is_lost_()) return false;
  if (arena_.control().save_failed.load(std::memory_order_relaxed) != 0) drop_copy(ticket_);
  hold_ = Hold::none;
  return true;
}

bool Exporting::wait(Nanoseconds deadline) {
  std::unique_lock lock(mutex_);
  // Waits by the system clock, because glibc 2.28 has no waits by the monotonic one. The system clock may
  // jump, so each wait is short.
  for (; is_running_ && now_ns() < deadline;
       ended_.wait_until(lock, std::chrono::system_clock::now() + kSlice)) {
  }
  if (is_running_) return false;
  if (const std::exception_ptr failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
  return true;
}

void Exporting::let_steps_go(Nanoseconds deadline) {
  const auto is_in_the_way = [this] {
    const std::lock_guard lock(mutex_);
    return is_running_ && goes_in_rounds() && !is_done(ticket_);
  };
  while (is_in_the_way()) {
    if (now_ns() >= deadline) {
      thread_.request_stop();
      // At once, while the thread may be in a write that hangs.
      arena_.control().save_failed.store(1, std::memory_order_release);
      return;
    }
    std::this_thread::sleep_for(kLookInterval);
  }
}

void Exporting::finish(Nanoseconds deadline) {
  if (wait(deadline)) return;
  thread_ = {};  // ends it, after the call that writes or syncs
  wait(deadline);
}

}  // namespace zf
