#include "base/error.hpp"

#include <cerrno>
#include <system_error>

#include "base/format.hpp"
#include "base/text.hpp"

namespace zf {

Error::Error(Exit exit, std::string_view what, std::string_view next)
    : std::runtime_error(one_line(next.empty() ? std::string(what) : format_text("{}; {}", what, next))),
      cause_size_(one_line(what).size()),
      exit_(exit) {}

void throw_errno(int errno_value, std::string_view what, std::string_view next) {
  throw Error(Exit::runtime_error, format_text("{}: {}", what, errno_text(errno_value)), next);
}

std::string_view descriptor_hint(int errno_value) {
  switch (errno_value) {
    case EMFILE:
    case ENFILE:
      return "look at ulimit -n";
    case EPERM:
    case ENOSYS:
      return "allow this call in the sandbox";
    default:
      return {};
  }
}

std::string writing_hint(int errno_value, std::string_view elsewhere) {
  const auto or_elsewhere = [&](std::string_view hint) {
    return elsewhere.empty() ? std::string(hint) : format_text("{}, or {}", hint, elsewhere);
  };
  switch (errno_value) {
    case ENOSPC:
    case EDQUOT:
      return or_elsewhere("free some space");
    case EIO:
      return or_elsewhere("look in dmesg for what the disk or its server reports");
    case EFBIG:
      return "raise ulimit -f";
    case EMFILE:
    case ENFILE:
      return std::string(descriptor_hint(errno_value));
    default:
      return or_elsewhere("check the file system that it lies on");
  }
}

std::string errno_text(int errno_value) { return std::generic_category().message(errno_value); }

}  // namespace zf
