#include "os/same_file.hpp"

#include <system_error>

namespace zf {

bool same_file(const std::filesystem::path& one, const std::filesystem::path& other) {
  if (one == other) return true;
  std::error_code gone;
  const bool same = std::filesystem::equivalent(one, other, gone);
  if (!gone) return same;
  std::error_code unknown;  // the current folder is gone
  const auto absolute = std::filesystem::absolute(one, unknown).lexically_normal();
  return !unknown && absolute == std::filesystem::absolute(other, unknown).lexically_normal();
}

}  // namespace zf
