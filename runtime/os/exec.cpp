#include "os/exec.hpp"

#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/format.hpp"
#include "os/standard_streams.hpp"

namespace zf {
namespace {

/// Replaces this process by the command. Returns errno if that fails.
int exec_or_errno(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  return errno;
}

}  // namespace

void exec_or_throw(const std::vector<std::string>& command) {
  const int error = exec_or_errno(command);
  const std::string& name = command.front();
  const bool is_here =
      error == ENOENT && name.find('/') == std::string::npos && ::access(name.c_str(), F_OK) == 0;
  throw Error(error == ENOENT ? Exit::not_found : Exit::cannot_execute,
              format_text("{}: {}", name, is_here ? "is not in PATH" : errno_text(error)),
              is_here ? format_text("write ./{} for the one in this folder", name) : "");
}

int exec_or_exit_code(const std::vector<std::string>& command) {
  const int error = exec_or_errno(command);
  print_stderr("{}: {}\n", command.front(), errno_text(error));
  return error == ENOENT ? 127 : 126;
}

}  // namespace zf
