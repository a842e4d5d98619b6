#include "children/attached_command.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "os/exec.hpp"

namespace zf {
namespace {

constexpr Nanoseconds kPollNs = 100 * kMillisecondNs;

/// A terminal sends these to the command too, and it alone decides what they mean.
constexpr std::array kOfTerminals{SIGINT, SIGQUIT};
/// Signals that batch systems and users send to the process that they started, which is this one.
constexpr std::array kPassedOn{SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

// Global, because a signal handler has no other way to reach it. One bit for each signal.
std::atomic<unsigned> caught = 0;
static_assert(std::atomic<unsigned>::is_always_lock_free, "anything else is not safe in a signal handler");

void on_signal(int number) { caught.fetch_or(1U << static_cast<unsigned>(number)); }

bool has(unsigned signals, int number) { return (signals & 1U << static_cast<unsigned>(number)) != 0; }

/// Keeps signals from ending this process while the command lives. A signal that was ignored before, as nohup
/// does with SIGHUP, stays ignored.
class CommandSignals {
 public:
  CommandSignals() {
    caught.store(0);
    for (const int number : kOfTerminals) handle(number);
    for (const int number : kPassedOn) handle(number);
  }
  ~CommandSignals() { restore(); }
  CommandSignals(const CommandSignals&) = delete;
  CommandSignals& operator=(const CommandSignals&) = delete;

  /// Gives all signals the handling that they had. The command begins with that.
  void restore() const {
    for (const auto& [number, action] : before_) ::sigaction(number, &action, nullptr);
  }

 private:
  void handle(int number) {
    struct sigaction& before = before_[number];
    checked(::sigaction(number, nullptr, &before), "sigaction");
    if (before.sa_handler == SIG_IGN) return;
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    checked(::sigaction(number, &action, nullptr), "sigaction");
  }

  std::map<int, struct sigaction> before_;
};

}  // namespace

AttachedEnd run_attached(const std::vector<std::string>& command,
                         const std::map<std::string, std::string>& variables,
                         const std::function<bool()>& stop, Nanoseconds patience, CommandOutput output) {
  const CommandSignals signals;
  Nanoseconds stopped_ns = 0;
  const auto become_command = [&] {
    signals.restore();
    if (output == CommandOutput::to_stderr && ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 126;
    for (const auto& [name, value] : variables) {
      if (::setenv(name.c_str(), value.c_str(), 1) != 0) return 126;
    }
    return exec_or_exit_code(command);
  };
  AttachedEnd end;
  const auto take_signals = [&] {
    const unsigned numbers = caught.exchange(0);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
      if (has(numbers, number)) end.interrupt = number;
    }
    return numbers;
  };
  Child child = fork_child(become_command, Reach::process, "cannot start the command");
  while (!child.wait_until(now_ns() + kPollNs)) {
    const unsigned numbers = take_signals();
    for (const int number : kPassedOn) {
      if (has(numbers, number)) child.signal(number);
    }
    if (stopped_ns == 0 && stop()) {
      stopped_ns = now_ns();
      child.signal(SIGTERM);
    }
    if (stopped_ns != 0 && now_ns() - stopped_ns > patience) child.kill();
  }
  take_signals();
  end.status = child.reap();
  return end;
}

}  // namespace zf
