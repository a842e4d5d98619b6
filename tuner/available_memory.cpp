#include "tuner/available_memory.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"

namespace zf {

std::uint64_t available_memory_bytes(const SysRoot& sysroot, const Allowed& allowed) {
  static constexpr std::string_view kField = "MemAvailable:";
  const std::string text = sysroot.read("/proc/meminfo").value_or("");
  const auto at = text.find(kField);
  const auto digits = at == std::string::npos ? at : text.find_first_of("0123456789", at);
  std::uint64_t kibibytes = 0;
  if (digits == std::string::npos ||
      std::from_chars(text.data() + digits, text.data() + text.size(), kibibytes).ec != std::errc()) {
    throw Error(Exit::runtime_error, "/proc/meminfo: no MemAvailable", "mount /proc");
  }
  // A cgroup's own usage is left out: page cache counts as usage and gives way, so half the limit is the
  // better guess.
  return std::min(kibibytes * 1024, allowed.memory_bytes.value_or(UINT64_MAX));
}

}  // namespace zf
