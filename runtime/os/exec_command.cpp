#include "os/exec_command.hpp"

#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "os/standard_streams.hpp"

namespace zf {

int exec_command(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  return errno;
}

int exec_or_exit_code(const std::vector<std::string>& command) {
  const int error = exec_command(command);
  print_stderr("{}: {}\n", command.front(), errno_text(error));
  return error == ENOENT ? 127 : 126;
}

}  // namespace zf
