#include "worker/keeper.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "ipc/arena_difference.hpp"
#include "ipc/keep_channel.hpp"
#include "ipc/keep_folder.hpp"

namespace zf {
namespace {

volatile std::sig_atomic_t is_told_to_end = 0;

/// A trainer that has the arena.
struct Trainer {
  pid_t pid;
  FileDescriptor pidfd;  ///< readable when it has ended, also if a forked child holds its descriptors
  KeepChannel channel;   ///< closed when it has ended or has become another program
};

class Keeper {
 public:
  /// listener: listens at the path that the arguments name.
  Keeper(const Arena& arena, const WorkerArguments& arguments, FileDescriptor listener)
      : arena_(arena),
        folder_(arguments.keep_folder),
        path_(keep_socket(folder_, {arguments.keep, arguments.rank})),
        own_file_(file_id(path_)),
        keep_ns_(arguments.keep_s * kSecondNs),
        listener_(std::move(listener)) {
    // The trainer never has our end: a child that another thread of it forks meanwhile would keep that open.
    const KeepChannel birth{FileDescriptor(kKeeperChannelFd)};
    KeepPair ends = make_keep_pair();
    birth.send(KeepMessage{.request = KeepRequest::take}, ends.trainer.fd());
    serve(birth.process(), std::move(ends.keeper), FileDescriptor(kKeeperPidFd));
  }

  void run() {
    while (goes_on_) {
      await();
      if (trainer_) hear(*trainer_);  // it may have ended since it spoke
      if (trainer_ && has_ended(*trainer_)) {
        trainer_.reset();
        if (!has_work(arena_)) break;
        begin_to_wait();
        begin_to_free_copy();
      }
      if (!trainer_ && !has_freed_copy()) free_part_of_copy();
      if (!trainer_ && (is_told_to_end != 0 || now_ns() >= end_ns_)) break;
      if (const auto caller = accept_own(listener_.get())) answer(*caller);
    }
    leave();
  }

 private:
  /// The first victim where memory is short: what it keeps is worth less than a job that runs.
  void begin_to_wait() {
    end_ns_ = now_ns() + keep_ns_;
    set_oom_score(1000);
  }

  /// Begins to free the copy of an export, which no thread writes to a file any more. A worker that still
  /// copies stops. The room stays as it is, because that worker reads it. The next trainer clears it.
  void begin_to_free_copy() {
    arena_.control().save_failed.store(1, std::memory_order_seq_cst);
    freed_ = 0;
  }

  bool has_freed_copy() const { return freed_ >= arena_.saved_bytes(); }

  /// Frees a part: callers do not wait for all of it.
  void free_part_of_copy() {
    const std::size_t begin = std::exchange(freed_, arena_.free_saved_part(freed_));
    if (freed_ == begin) freed_ = arena_.saved_bytes();  // it cannot be freed
  }

  static void set_oom_score(int score) {
    // Where /proc is not writable, the score stays.
    const FileDescriptor file(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
    if (file.valid()) dprintf(file.get(), "%d", score);
  }

  static bool has_ended(const Trainer& trainer) {
    pollfd ended = {.fd = trainer.pidfd.get(), .events = POLLIN, .revents = 0};
    return poll(&ended, 1, 0) > 0 || trainer.channel.is_closed();
  }

  /// Sleeps until a caller comes, the trainer ends or speaks, SIGTERM comes, or the time is over.
  void await() const {
    std::array files{pollfd{.fd = listener_.get(), .events = POLLIN, .revents = 0},
                     pollfd{.fd = trainer_ ? trainer_->pidfd.get() : -1, .events = POLLIN, .revents = 0},
                     pollfd{.fd = trainer_ ? trainer_->channel.fd() : -1, .events = POLLIN, .revents = 0}};
    const Nanoseconds left =
        has_freed_copy() ? std::max<Nanoseconds>(0, end_ns_ - now_ns()) + kMillisecondNs : 0;
    const timespec limit = {.tv_sec = static_cast<time_t>(left / kSecondNs),
                            .tv_nsec = static_cast<long>(left % kSecondNs)};
    sigset_t none;
    sigemptyset(&none);
    // SIGTERM comes in here alone.
    ppoll(files.data(), files.size(), trainer_ ? nullptr : &limit, &none);
  }

  KeepAnswer present() const {
    const Nanoseconds left = trainer_ ? keep_ns_ : std::max<Nanoseconds>(0, end_ns_ - now_ns());
    return {.trainer = trainer_ ? trainer_->pid : 0,
            .keeper = getpid(),
            .bytes = arena_.bytes(),
            .step = last_begun_step(arena_),
            .left_ms = left / kMillisecondNs};
  }

  void answer(const KeepChannel& caller) {
    FileDescriptor pidfd;
    const std::optional<KeepMessage> asked = caller.receive_message(&pidfd);
    if (!asked) return;
    const bool is_free = !trainer_;
    switch (asked->request) {
      case KeepRequest::open:
        if (!caller.send(present(), is_free ? arena_.fd() : -1) || !is_free || !pidfd.valid()) return;
        return give(caller, std::move(pidfd));
      case KeepRequest::drop:
        goes_on_ = !is_free;
        caller.send(present());
        return;
      case KeepRequest::status:
        caller.send(present());
        return;
      case KeepRequest::take:
      case KeepRequest::close:
        return;
    }
  }

  /// Gives the arena to a caller that has it in its hands already, unless it does not want it.
  void give(const KeepChannel& caller, FileDescriptor pidfd) {
    const std::optional<KeepMessage> asked = caller.receive_message();
    if (!asked || asked->request != KeepRequest::take) return;
    FileDescriptor copy(fcntl(caller.fd(), F_DUPFD_CLOEXEC, 0));
    if (!copy.valid()) return;
    serve(caller.process(), KeepChannel(std::move(copy)), std::move(pidfd));
    set_oom_score(first_score_);
    if (!caller.send(present())) trainer_.reset();
  }

  void serve(pid_t process, KeepChannel channel, FileDescriptor pidfd) {
    // In another PID namespace a trainer has no number here.
    trainer_.emplace(Trainer{process == 0 ? -1 : process, std::move(pidfd), std::move(channel)});
  }

  void hear(const Trainer& trainer) {
    pollfd spoken = {.fd = trainer.channel.fd(), .events = POLLIN, .revents = 0};
    if (poll(&spoken, 1, 0) <= 0 || (spoken.revents & POLLIN) == 0) return;
    const std::optional<KeepMessage> asked = trainer.channel.receive_message();
    if (asked && asked->request == KeepRequest::close) goes_on_ = false;
  }

  /// Removes the socket, and the folder if nothing is left there.
  void leave() {
    // First: what does not answer, and has a socket, has died. No other process removes it while we listen.
    if (own_file_ && file_id(path_) == own_file_) unlink(path_.c_str());
    listener_ = FileDescriptor();  // a trainer that holds the lock and asks us gets no answer, and goes on
    const KeepLock lock(folder_);
  }

  static int read_oom_score() {
    int score = 0;
    FILE* const file = std::fopen("/proc/self/oom_score_adj", "re");
    if (file == nullptr) return 0;
    if (std::fscanf(file, "%d", &score) != 1) score = 0;
    std::fclose(file);
    return score;
  }

  const Arena& arena_;
  const std::filesystem::path folder_;
  const std::filesystem::path path_;
  const std::optional<FileId> own_file_;
  const Nanoseconds keep_ns_;
  const int first_score_ = read_oom_score();
  FileDescriptor listener_;
  std::optional<Trainer> trainer_;
  Nanoseconds end_ns_ = 0;
  std::size_t freed_ = arena_.saved_bytes();  ///< of the copy of an export
  bool goes_on_ = true;
};

/// Lets go of all that a launcher or a pipe could wait for. Signals to the whole job are not for this
/// process.
void leave_job() {
  close(kKeeperLockFd);
  setsid();
  for (const int signal : {SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE}) std::signal(signal, SIG_IGN);
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, nullptr);
  std::signal(SIGTERM, [](int) { is_told_to_end = 1; });
  const FileDescriptor null(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int stream : {0, 1, 2}) dup2(null.get(), stream);
  if (chdir("/") != 0) return;  // the working directory then stays busy
}

}  // namespace

void keep(const Arena& arena, const WorkerArguments& arguments) {
  const std::filesystem::path path = keep_socket(arguments.keep_folder, {arguments.keep, arguments.rank});
  FileDescriptor listener = listen_at(path);
  const pid_t pid = fork();
  if (pid < 0) {
    const int error = errno;
    unlink(path.c_str());
    throw_errno(error, "the process that keeps the arena", kTaskLimitHint);
  }
  if (pid > 0) return;
  try {
    leave_job();
    Keeper(arena, arguments, std::move(listener)).run();
  } catch (const std::exception&) {
    _exit(static_cast<int>(Exit::runtime_error));  // it has no stderr
  }
  _exit(0);
}

}  // namespace zf
