// What a user or a machine did wrong, as one line: what, where, and what to do next.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace zf {

/// The exit codes of every command, and what an Error turns into at main().
enum class Exit : int {
  done = 0,
  runtime_error = 1,     ///< the machine refused: a system call failed, memory ran out
  usage = 2,             ///< an unknown flag, a malformed value, an unreadable or broken file
  stale_plan = 3,        ///< a sound plan that does not fit this machine or this allocation
  infeasible = 4,        ///< no plan exists: more ranks than cores, nothing allowed
  cannot_execute = 126,  ///< exec: the command was found and could not be started
  not_found = 127,       ///< exec: the command was not found
};

/// The machine or the user was wrong. (Where we were wrong, the code asserts.)
/// `what` names the path, flag or field and the value; `next` says what to do and may be empty.
/// Ends at main() and at the C ABI; what() is "what; next", one line.
class Error : public std::runtime_error {
 public:
  Error(Exit exit, std::string_view what, std::string_view next = {});
  Exit exit() const { return exit_; }

 private:
  Exit exit_;
};

/// Throws Error(runtime_error) "what: text of errno_value; next".
[[noreturn]] void throw_errno(int errno_value, std::string_view what, std::string_view next = {});

/// For system calls that answer -1 and set errno: throws as above, or hands the answer on.
template <class Result>
Result checked(Result result, std::string_view what, std::string_view next = {});

/// The text of an errno value ("No such file or directory"), thread-safe.
std::string errno_text(int errno_value);

}  // namespace zf

#include <cerrno>

template <class Result>
Result zf::checked(Result result, std::string_view what, std::string_view next) {
  if (result == Result(-1)) throw_errno(errno, what, next);
  return result;
}
