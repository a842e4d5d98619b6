#include "children/temporary_folder.hpp"

#include <cerrno>
#include <cstdlib>

#include "base/error.hpp"

namespace zf {

TemporaryFolder::TemporaryFolder(const std::string& name) {
  std::string path = std::filesystem::temp_directory_path() / (name + "-XXXXXX");
  if (::mkdtemp(path.data()) == nullptr) throw_errno(errno, "cannot create the folder " + path);
  path_ = path;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // a folder that cannot be removed must not cost the result
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace zf
