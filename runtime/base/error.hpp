// The error of this project: one line that says what is wrong, where, and what to do next.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace zf {

/// The exit codes of every command. main() turns an Error into its exit code.
enum class Exit : int {
  done = 0,
  runtime_error = 1,     ///< the machine refused: a system call failed, memory ran out
  usage = 2,             ///< an unknown flag, a malformed value, an unreadable or broken file
  stale_plan = 3,        ///< a valid plan that does not fit this machine or this allocation
  infeasible = 4,        ///< no plan exists: more ranks than cores, nothing allowed
  cannot_execute = 126,  ///< exec: the command was found but could not be started
  not_found = 127,       ///< exec: the command was not found
};

/// Says that the machine or the user was wrong. (If this code is wrong, an assertion stops it.) `what` names
/// the path, flag or field, and the value. `next` says what to do, and may be empty. what() is "what; next"
/// on one line; cause() is it without `next`. The exception is caught in main() and at the C ABI.
class Error : public std::runtime_error {
 public:
  Error(Exit exit, std::string_view what, std::string_view next = {});
  Exit exit() const { return exit_; }
  std::string_view cause() const { return std::string_view(what()).substr(0, cause_size_); }

 private:
  std::size_t cause_size_;
  Exit exit_;
};

/// What to do next when the kernel refuses another thread or process.
inline constexpr std::string_view kTaskLimitHint =
    "look at ulimit -u, ulimit -v, ulimit -d and the cgroup's pids.max";

/// Returns what to do next when the kernel refuses another descriptor with this errno value; may be empty.
std::string_view descriptor_hint(int errno_value);

/// Returns what to do next when a file cannot be written, or not as large as it should be. `elsewhere`: how
/// to write it elsewhere, such as "give another path"; it is said if that may help.
std::string writing_hint(int errno_value, std::string_view elsewhere = {});

/// Throws Error(runtime_error) "what: text of errno_value; next".
[[noreturn]] void throw_errno(int errno_value, std::string_view what, std::string_view next = {});

/// Returns the result of a system call, or throws as above if it is -1; errno holds the reason.
template <class Result>
Result checked(Result result, std::string_view what, std::string_view next = {});

/// Returns the text of an errno value, such as "No such file or directory". Thread-safe.
std::string errno_text(int errno_value);

}  // namespace zf

#include <cerrno>

template <class Result>
Result zf::checked(Result result, std::string_view what, std::string_view next) {
  if (result == Result(-1)) throw_errno(errno, what, next);
  return result;
}
