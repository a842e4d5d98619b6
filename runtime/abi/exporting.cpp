#include "abi/exporting.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <system_error>
#include <utility>

#include "abi/state_file.hpp"
#include "abi/status.hpp"
#include "base/format.hpp"
#include "base/signals_blocked.hpp"
#include "base/text.hpp"
#include "os/memory_limits.hpp"

namespace zf {
namespace {

constexpr std::chrono::milliseconds kLookInterval{2};
constexpr std::chrono::milliseconds kSlice{50};
/// Where all CPUs are busy, the thread gets a tenth of what another one has.
constexpr int kNicer = 10;
constexpr const char* kNeedsNoRoom = "use zf_export_state, which needs none";

std::uint64_t bytes_to_save(const Arena& arena) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < arena.control().group_count; ++i) {
    const GroupBlock& group = arena.group(i);
    for (std::size_t kind = 0; kind < kArrayKinds; ++kind) {
      if (group.is_state(static_cast<ArrayKind>(kind))) bytes += group.arrays[kind].bytes;
    }
  }
  return bytes;
}

}  // namespace

void check_room_for_saving(const Arena& arena, const Allowed& allowed) {
  if (!arena.has_saved_area()) {
    throw AbiError(ZF_ERROR_SYSTEM, "`ulimit -f` or `ulimit -v` leaves no room for a copy of the arena",
                   format_text("raise it, or {}", kNeedsNoRoom));
  }
  const std::uint64_t bytes = bytes_to_save(arena);
  const MemoryLimits limits = read_memory_limits(SysRoot(), allowed);
  const auto refuse = [&](std::uint64_t left, std::string_view where) {
    throw AbiError(ZF_ERROR_SYSTEM,
                   format_text("an export beside the training needs a copy of {}, and {} has {} left",
                               print_bytes(bytes), where, print_bytes(left)),
                   kNeedsNoRoom);
  };
  const std::uint64_t needed = bytes + bytes / 8;  // training may take some meanwhile
  if (limits.available && needed > *limits.available) refuse(*limits.available, "the machine");
  if (!allowed.memory_bytes || !limits.cgroup_used) return;
  const std::uint64_t left = *allowed.memory_bytes - std::min(*allowed.memory_bytes, *limits.cgroup_used);
  if (needed > left) refuse(left, format_text("the job's memory limit ({})", allowed.memory_path));
}

Exporting::~Exporting() = default;  // the thread ends first: it is the last member

void Exporting::check_idle() {
  const std::lock_guard lock(mutex_);
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
  try {
    const SignalsBlocked blocked;  // the trainer's signal handlers run on the trainer's own threads
    thread_ = std::jthread([this, file = std::move(file),
                            is_lost = std::move(is_lost)](const std::stop_token& given_up) mutable {
      run(given_up, std::move(file), is_lost);
    });
  } catch (const std::system_error& error) {
    throw AbiError(ZF_ERROR_SYSTEM,
                   format_text("cannot start the thread that writes an export: {}", error.what()),
                   kTaskLimitHint);
  }
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
  static_cast<void>(::nice(kNicer));  // of this thread alone, on Linux; without it only the speed differs
  std::uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    ticket = ticket_;
  }
  if (ticket == 0) return;
  std::exception_ptr failure;
  try {
    write(given_up, *file, ticket, is_lost);
  } catch (...) {
    failure = std::current_exception();
  }
  file.reset();
  arena_.free_saved();  // what the kernel does not free is used again by the next export
  const std::lock_guard lock(mutex_);
  failure_ = failure;
  is_running_ = false;
  ended_.notify_all();
}

void Exporting::write(const std::stop_token& given_up, AtomicFile& file, std::uint64_t ticket,
                      const std::function<bool()>& is_lost) const {
  const ControlBlock& control = arena_.control();
  const auto is_done = [&] { return control.completed.load(std::memory_order_seq_cst) >= ticket; };
  while (!is_done()) {
    if (given_up.stop_requested()) throw GivenUp();
    if (is_lost() && !is_done()) {
      throw AbiError(ZF_WORKER_DIED, "the optimizer died before it had copied what is exported",
                     "the old file is untouched");
    }
    std::this_thread::sleep_for(kLookInterval);
  }
  if (control.save_failed.load(std::memory_order_relaxed) != 0)
    throw AbiError(ZF_ERROR_SYSTEM, "memory ran out for the copy of what is exported", kNeedsNoRoom);
  write_state_file(file, arena_, Source::saved, given_up);
}

bool Exporting::wait(Nanoseconds deadline) {
  std::unique_lock lock(mutex_);
  // By the system's clock, which may jump, in short slices: glibc 2.28 has no waits by the other one.
  for (; is_running_ && now_ns() < deadline;
       ended_.wait_until(lock, std::chrono::system_clock::now() + kSlice)) {
  }
  if (is_running_) return false;
  if (const std::exception_ptr failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
  return true;
}

void Exporting::finish(Nanoseconds deadline, Nanoseconds timeout) {
  if (wait(deadline)) return;
  thread_ = {};  // ends it, after the call that writes or syncs
  try {
    wait(deadline);
  } catch (const GivenUp&) {
    throw AbiError(
        ZF_TIMEOUT,
        format_text("the export to {} was given up: it was not done after {} ms; the old file is untouched",
                    path_.string(), timeout / kMillisecondNs),
        "call zf_export_wait before zf_close");
  }
}

}  // namespace zf
