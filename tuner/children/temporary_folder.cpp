#include "children/temporary_folder.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <system_error>
#include <vector>

#include "base/error.hpp"
#include "base/file_descriptor.hpp"
#include "base/format.hpp"
#include "os/file.hpp"

namespace zf {

namespace {

namespace fs = std::filesystem;

/// Returns where to try: TMPDIR or what stands for it, if it is a folder; then what is nearly always there.
std::vector<fs::path> places() {
  std::error_code ignored;
  std::vector<fs::path> found{"/tmp", "/dev/shm"};
  if (const fs::path wished = fs::temp_directory_path(ignored); !wished.empty())
    found.insert(found.begin(), wished);
  return found;
}

}  // namespace

TemporaryFolder::TemporaryFolder(const std::string& name) {
  std::string refused;
  for (const fs::path& place : places()) {
    std::string path = place / (name + "-XXXXXX");
    if (::mkdtemp(path.data()) != nullptr) {
      path_ = path;
      return;
    }
    const int cause = errno;
    refused += format_text("{}{} ({})", refused.empty() ? "" : ", ", place.string(), std::strerror(cause));
  }
  throw Error(Exit::runtime_error, "cannot create a temporary folder in " + refused,
              "let TMPDIR name a folder that can be written");
}

void TemporaryFolder::write(const std::string& name, std::string_view text) const {
  const fs::path path = path_ / name;
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const int error = file.valid() ? write_all(file.get(), std::as_bytes(std::span(text))) : errno;
  if (error != 0)
    throw_errno(error, format_text("cannot write {}", path.string()),
                writing_hint(error, "let TMPDIR name another folder"));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // a folder that cannot be removed must not cost the result
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace zf
