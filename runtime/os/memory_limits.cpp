#include "os/memory_limits.hpp"

#include <sys/statvfs.h>

#include <sstream>
#include <string_view>

#include "base/trim.hpp"
#include "os/meminfo.hpp"

namespace zf {
namespace {

/// Returns the bytes of "size=65536k" among tmpfs's options; nothing if it is not set.
std::optional<std::uint64_t> size_option(const std::string& options) {
  std::istringstream list(options);
  for (std::string option; std::getline(list, option, ',');) {
    if (!option.starts_with("size=")) continue;
    std::istringstream value(option.substr(5));
    std::uint64_t size = 0;
    char unit = 0;
    if (!(value >> size)) return std::nullopt;
    value >> unit;
    return unit == 'k' ? size << 10 : unit == 'm' ? size << 20 : unit == 'g' ? size << 30 : size;
  }
  return std::nullopt;
}

/// Returns what is free in the file system at /dev/shm of this machine; nothing if it has no limit, or does
/// not say it.
std::optional<std::uint64_t> free_at_dev_shm() {
  struct statvfs found = {};
  if (statvfs("/dev/shm", &found) != 0 || found.f_blocks == 0) return std::nullopt;
  return std::uint64_t{found.f_bavail} * found.f_frsize;
}

/// Returns the number on the line "name number" of a memory.stat.
std::optional<std::uint64_t> stat_field(const std::string& stat, std::string_view name) {
  std::istringstream lines(stat);
  std::string field;
  for (std::uint64_t value = 0; lines >> field >> value;) {
    if (field == name) return value;
  }
  return std::nullopt;
}

/// Returns what cannot be reclaimed in the group that this file limits.
std::optional<std::uint64_t> used_beside(const SysRoot& sysroot, const std::string& limit_path) {
  if (limit_path.empty()) return std::nullopt;
  const auto stat = sysroot.read(limit_path.substr(0, limit_path.rfind('/')) + "/memory.stat");
  if (!stat) return std::nullopt;
  for (const auto& [anonymous, shared] :
       {std::pair{"anon", "shmem"}, std::pair{"total_rss", "total_shmem"}}) {
    const auto first = stat_field(*stat, anonymous), second = stat_field(*stat, shared);
    if (first && second) return *first + *second;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> commit_left(const SysRoot& sysroot, const std::string& meminfo) {
  const auto mode = sysroot.read("/proc/sys/vm/overcommit_memory");
  if (!mode || trim(*mode, kKernelBlanks) != "2") return std::nullopt;
  const auto limit = meminfo_bytes(meminfo, "CommitLimit"), used = meminfo_bytes(meminfo, "Committed_AS");
  if (!limit || !used) return std::nullopt;
  return *limit > *used ? *limit - *used : 0;
}

std::optional<std::uint64_t> huge_pages(const std::string& meminfo) {
  const auto size = meminfo_bytes(meminfo, "Hugepagesize");
  const auto count = meminfo_bytes(meminfo, "HugePages_Total");  // a plain number, not in kB
  if (!size || !count) return std::nullopt;
  return *count / 1024 * *size;
}

}  // namespace

std::optional<SharedMemory> read_shared_memory(const SysRoot& sysroot) {
  const auto mounts = sysroot.read("/proc/mounts");
  if (!mounts) return std::nullopt;
  SharedMemory found;
  std::istringstream lines(*mounts);
  for (std::string line; std::getline(lines, line);) {  // the last such line counts
    std::istringstream fields(line);
    std::string device, point, type, options;
    if (fields >> device >> point >> type >> options && point == "/dev/shm")
      found = {.is_mounted = true, .size = size_option(options)};
  }
  if (found.is_mounted && sysroot.is_this_machine()) found.free = free_at_dev_shm();
  return found;
}

std::optional<std::uint64_t> locked_memory_limit(const SysRoot& sysroot) {
  std::istringstream lines(sysroot.read("/proc/self/limits").value_or(""));
  constexpr std::string_view kName = "Max locked memory";
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(kName)) continue;
    std::istringstream fields(line.substr(kName.size()));
    std::uint64_t soft = 0;
    if (fields >> soft) return soft;  // else "unlimited"
  }
  return std::nullopt;
}

MemoryLimits read_memory_limits(const SysRoot& sysroot, const Allowed& allowed) {
  const std::string meminfo = sysroot.read("/proc/meminfo").value_or("");
  MemoryLimits limits;
  limits.total = meminfo_bytes(meminfo, "MemTotal");
  limits.available = meminfo_bytes(meminfo, "MemAvailable");
  limits.cgroup_used = used_beside(sysroot, allowed.memory_path);
  limits.commit_left = commit_left(sysroot, meminfo);
  limits.locked_memory = locked_memory_limit(sysroot);
  limits.huge_pages = huge_pages(meminfo);
  if (const auto shared = read_shared_memory(sysroot)) {
    limits.shared_memory_is_missing = !shared->is_mounted;
    if (shared->is_mounted)
      limits.shared_memory = shared->room() ? shared->room()
                             : limits.total ? std::optional(*limits.total / 2)
                                            : std::nullopt;
  }
  return limits;
}

}  // namespace zf
