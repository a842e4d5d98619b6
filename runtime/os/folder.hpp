// Lists a folder. (std::filesystem::directory_iterator allocates in noexcept functions of libstdc++, so that
// a lack of memory would end the program.)
#pragma once

#include <dirent.h>

#include <cerrno>
#include <memory>
#include <string_view>

namespace zf {

/// Calls visit(name) for each entry of a folder except "." and "..". Returns 0, or the errno of the call that
/// failed; entries may have been visited before it.
template <class Visit>
int for_each_entry(const char* path, Visit visit) {
  struct Close {
    void operator()(DIR* folder) const { closedir(folder); }
  };
  const std::unique_ptr<DIR, Close> folder(opendir(path));
  if (!folder) return errno;
  for (errno = 0; const dirent* const entry = readdir(folder.get()); errno = 0) {
    const std::string_view name(entry->d_name);
    if (name != "." && name != "..") visit(name);
  }
  return errno;
}

}  // namespace zf
