#include "children/attached_command.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "os/standard_streams.hpp"

namespace zf {
namespace {

constexpr Nanoseconds kPollNs = 100 * kMillisecondNs;

/// Ignores a signal while this object lives.
class Ignored {
 public:
  explicit Ignored(int number) : number_(number), before_(::signal(number, SIG_IGN)) {}
  ~Ignored() { ::signal(number_, before_); }
  Ignored(const Ignored&) = delete;
  Ignored& operator=(const Ignored&) = delete;

 private:
  int number_;
  sighandler_t before_;
};

/// Runs in the child. Replaces it by the command, or prints the error and returns the exit code if that
/// fails.
int exec_or_exit_code(const std::vector<std::string>& command,
                      const std::map<std::string, std::string>& variables) {
  for (const int number : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) ::signal(number, SIG_DFL);
  for (const auto& [name, value] : variables) {
    if (::setenv(name.c_str(), value.c_str(), 1) != 0) return 126;
  }
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const int error = errno;
  print_stderr("{}: {}\n", command.front(), errno_text(error));
  return error == ENOENT ? 127 : 126;
}

}  // namespace

ExitStatus run_attached(const std::vector<std::string>& command,
                        const std::map<std::string, std::string>& variables,
                        const std::function<int()>& signal) {
  const Ignored interrupts(SIGINT);
  const Ignored quits(SIGQUIT);
  Child child = fork_child([&] { return exec_or_exit_code(command, variables); }, Reach::process,
                           "cannot start the command");
  while (!child.wait_until(now_ns() + kPollNs)) {
    if (const int number = signal(); number != 0) child.signal(number);
  }
  return child.reap();
}

}  // namespace zf
