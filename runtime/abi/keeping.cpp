#include "abi/keeping.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "abi/status.hpp"
#include "base/format.hpp"
#include "ipc/arena_difference.hpp"
#include "ipc/child.hpp"
#include "ipc/spawn.hpp"

namespace zf {
namespace {

std::string how_to_drop(const KeepWish& wish) {
  return format_text("free it with: zf-tune kept --drop {}", wish.name.name);
}

[[noreturn]] void refuse(const KeepWish& wish, std::string_view why, std::string_view hint) {
  throw AbiError(ZF_ERROR_STATE, format_text("what is kept as {} {}", print(wish.name), why), hint);
}

/// Throws if the arena cannot be this trainer's. Nothing is changed.
void check(const KeepWish& wish, int fd, const ArenaLayout& layout) {
  alignas(ArenaPrefix) std::array<std::byte, offsetof(ArenaPrefix, worker_state)> begin = {};
  const bool is_whole = pread(fd, begin.data(), begin.size(), 0) == static_cast<ssize_t>(begin.size());
  std::uint32_t version = 0;
  std::memcpy(&version, begin.data() + offsetof(ArenaPrefix, version), sizeof version);
  if (!is_whole || version != kArenaVersion)
    refuse(wish, format_text("is of another release (arena version {}, and not {})", version, kArenaVersion),
           how_to_drop(wish));
  const Arena arena = Arena::attach(FileDescriptor(checked(
      fcntl(fd, F_DUPFD_CLOEXEC, 0), "a copy of the kept arena's descriptor", descriptor_hint(EMFILE))));
  if (const std::string how = difference(arena, layout); !how.empty())
    refuse(wish, "has another layout: " + how, "open it as it was opened, or " + how_to_drop(wish));
  if (arena.control().is_overwritten.load(std::memory_order_seq_cst) != 0)
    refuse(wish, "is half overwritten: its trainer died while it read a state into it", how_to_drop(wish));
}

/// Throws if the name is kept for other ranks, and not for this one: the job has other ranks now.
void check_other_ranks(const KeepWish& wish) {
  for (const KeepName& other : kept_names(wish.folder)) {
    if (other.name != wish.name.name || other.rank == wish.name.rank) continue;
    const std::filesystem::path path = keep_socket(wish.folder, other);
    const auto channel = KeepChannel::connect(path);
    const auto kept = channel ? ask_unless_ended(path, *channel, KeepRequest::status) : std::nullopt;
    if (!kept || kept->trainer != 0 || kept->step == 0) continue;  // before step 1 all begin anew
    throw AbiError(
        ZF_ERROR_STATE,
        format_text("{} is kept for rank {}, and not for rank {}", other.name, other.rank, wish.name.rank),
        "that rank has closed it at the job's end, its keeper is lost, or the job has other ranks now: " +
            how_to_drop(wish));
  }
}

/// Starts the keeper of an arena that this process has as its first trainer, and returns the connection to
/// it. The keeper is no descendant of this process, and outlives it. It ends itself if this process dies
/// meanwhile.
KeepChannel start_keeper(const KeepWish& wish, const Arena& arena, const KeepLock& lock) {
  const FileDescriptor own = open_pidfd(getpid());
  const KeepPair birth = make_keep_pair();
  Child parent = spawn(wish.program,
                       {"--keep", wish.name.name, "--rank", std::to_string(wish.name.rank), "--keep-folder",
                        wish.folder.string(), "--keep-s", std::to_string(wish.seconds)},
                       {{arena.fd(), kKeeperArenaFd},
                        {lock.fd(), kKeeperLockFd},
                        {own.get(), kKeeperPidFd},
                        {birth.keeper.fd(), kKeeperChannelFd}},
                       wish.environment);
  if (!parent.wait_until(now_ns() + wish.timeout_ns))
    throw AbiError(ZF_TIMEOUT, format_text("{} --keep was not ready in time", wish.program.string()));
  const ExitStatus status = parent.reap();
  if (const std::string error = arena.control().prefix.error.load(); !error.empty())
    throw AbiError(ZF_ERROR_WORKER, error);
  if (status.code.value_or(0) != 0 || status.signal) {
    throw AbiError(ZF_ERROR_WORKER, format_text("{} --keep {}", wish.program.string(), describe(status)),
                   "is it the zf-optimizer of this release?");
  }
  FileDescriptor channel;
  birth.trainer.receive_message(&channel);
  if (channel.valid()) return KeepChannel(std::move(channel));
  throw AbiError(ZF_ERROR_SYSTEM, "the connection to the process that keeps the arena did not come",
                 descriptor_hint(EMFILE));
}

/// Waits until the worker of the last trainer, which is being killed, has ended.
void await_last_worker(const KeepWish& wish, const Arena& arena) {
  for (const Nanoseconds deadline = now_ns() + wish.timeout_ns; arena.has_worker(); usleep(500)) {
    if (now_ns() < deadline) continue;
    throw AbiError(ZF_TIMEOUT, format_text("the last optimizer of {} does not end", print(wish.name)),
                   "`ps -C zf-optimizer` shows it");
  }
}

/// Takes over the arena of another trainer, and forgets work that only that trainer waited for.
void begin_anew(const Arena& arena) {
  ControlBlock& control = arena.control();
  control.prefix.error.store("");
  control.prefix.worker_state.store(WorkerState::starting, std::memory_order_seq_cst);
  control.stop.store(0, std::memory_order_seq_cst);
  control.wants_chunks.store(0, std::memory_order_seq_cst);
  control.work.init();
  control.done.init();
  control.save_failed.store(1, std::memory_order_seq_cst);  // nothing waits for the file of a copy
  arena.free_saved();
  control.save_room.store(0, std::memory_order_seq_cst);
  control.save_reserved.store(0, std::memory_order_seq_cst);
}

/// Asks the keeper to give this process the arena. *arena stays invalid if another process has it. Returns
/// nothing if the keeper has ended, as it does at the end of a trainer that has begun no step.
std::optional<KeepAnswer> ask_to_open(const std::filesystem::path& path, const KeepChannel& channel,
                                      FileDescriptor* arena) {
  const FileDescriptor own = open_pidfd(getpid());
  return ask_unless_ended(path, channel, KeepRequest::open, own.get(), arena);
}

}  // namespace

Keeping::~Keeping() {
  if (!leaves_) end();
}

void Keeping::end() noexcept {
  if (channel_.fd() < 0) return;
  const KeepChannel ending = std::move(channel_);
  try {
    if (ending.send(KeepMessage{.request = KeepRequest::close})) ending.is_closed(now_ns() + 2 * kSecondNs);
  } catch (const std::exception&) {
    // The connection is lost: the keeper sees the end of this process.
  }
}

std::string Keeping::note() const {
  if (channel_.fd() < 0 || !channel_.is_closed()) return note_;
  return "the process that keeps the arena has died: if the trainer dies too, nothing is kept";
}

KeptArena open_kept(const KeepWish& wish, const ArenaLayout& layout, const std::function<Arena()>& make) {
  const KeepLock lock(wish.folder);
  const std::filesystem::path path = keep_socket(wish.folder, wish.name);
  std::optional<KeepChannel> channel = KeepChannel::connect(path);
  FileDescriptor fd;
  const std::optional<KeepAnswer> answer = channel ? ask_to_open(path, *channel, &fd) : std::nullopt;
  if (!answer) {
    check_other_ranks(wish);
    const bool has_died = unlink(path.c_str()) == 0;  // one that ends removes its socket itself
    Arena arena = make();
    KeepChannel begun = start_keeper(wish, arena, lock);
    return {std::move(arena),
            Keeping(std::move(begun), false,
                    has_died
                        ? format_text("the process that kept {} has died: nothing was kept", print(wish.name))
                        : "")};
  }
  if (answer->trainer != 0)
    throw AbiError(ZF_ERROR_BUSY,
                   format_text("{} is in use by process {}", print(wish.name), answer->trainer),
                   answer->trainer == getpid() ? "close its handle first, or keep this one under another name"
                                               : "end that process, or keep this one under another name");
  if (!fd.valid()) throw AbiError(ZF_ERROR_SYSTEM, "the kept arena did not come", descriptor_hint(EMFILE));
  check(wish, fd.get(), layout);
  ask(*channel, KeepRequest::take);
  Keeping keeping(*std::move(channel), true, "");
  Arena arena = Arena::attach(std::move(fd));
  await_last_worker(wish, arena);
  begin_anew(arena);
  return {std::move(arena), std::move(keeping)};
}

}  // namespace zf
