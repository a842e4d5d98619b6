#include "children/orphans.hpp"

#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "base/format.hpp"

namespace zf {
namespace {

constexpr std::chrono::milliseconds kPoll{20};

std::vector<pid_t> children() {
  std::ifstream list(format_text("/proc/self/task/{}/children", ::gettid()));
  std::vector<pid_t> found;
  for (pid_t pid = 0; list >> pid;) {
    if (::waitpid(pid, nullptr, WNOHANG) == 0) found.push_back(pid);  // otherwise it has ended
  }
  return found;
}

}  // namespace

// An old kernel or a sandbox that refuses leaves orphans to init, as without us.
Orphans::Orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

Orphans::~Orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 0); }

void Orphans::end(Nanoseconds patience) {
  const Nanoseconds asked_until = now_ns() + patience;
  std::set<pid_t> asked;
  while (now_ns() < asked_until + patience) {
    const std::vector<pid_t> left = children();
    if (left.empty()) return;
    for (const pid_t pid : left) {
      if (now_ns() >= asked_until) {
        ::kill(pid, SIGKILL);
      } else if (asked.insert(pid).second) {
        ::kill(pid, SIGTERM);
      }
    }
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace zf
