#include "os/cgroup.hpp"

#include <charconv>
#include <functional>
#include <string_view>
#include <vector>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/trim.hpp"
#include "os/cgroup_path.hpp"

namespace zf {
namespace {

/// A v1 memory limit above this means "none": the kernel then writes 2^63 - 1 rounded down to a page.
constexpr std::uint64_t kNoLimitBytes = std::uint64_t{1} << 60;

[[noreturn]] void makes_no_sense(const std::string& path, std::string_view text) {
  throw Error(Exit::runtime_error, format_text("{}: cannot understand \"{}\"", path, text),
              "give --allowed and --mems by hand");
}

/// Returns a file's text without what kernels write around it.
std::optional<std::string> read_value(const SysRoot& sysroot, const std::string& path) {
  const auto text = sysroot.read(path);
  return text ? std::optional(std::string(trim(*text, kKernelBlanks))) : std::nullopt;
}

std::int64_t number(std::string_view text, const std::string& path) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) makes_no_sense(path, text);
  return value;
}

/// Returns the cpuset of the nearest group that has one. A group without its own (v2 without the controller,
/// v1 not yet filled in) has that of its parent.
template <class Set>
std::optional<Limited<Set>> nearest_list(const SysRoot& sysroot, const std::vector<std::string>& groups,
                                         const std::vector<std::string>& files,
                                         Set (*parse)(std::string_view, std::string_view)) {
  for (const auto& group : groups) {
    for (const auto& file : files) {
      const std::string path = group + file;
      const auto text = sysroot.read(path);
      if (!text) continue;
      try {
        if (Set set = parse(*text, path); !set.empty()) return Limited<Set>{std::move(set), path};
      } catch (const Error&) {
        makes_no_sense(path, *text);
      }
    }
  }
  return std::nullopt;
}

/// Returns the smallest of the limits that the groups set.
template <class T>
std::optional<Limited<T>> tightest(
    const std::vector<std::string>& groups,
    const std::function<std::optional<Limited<T>>(const std::string&)>& limit_of) {
  std::optional<Limited<T>> least;
  for (const auto& group : groups) {
    const auto limit = limit_of(group);
    if (limit && (!least || limit->value < least->value)) least = limit;
  }
  return least;
}

std::optional<Limited<double>> quota(const std::string& path, std::string_view quota_us,
                                     std::string_view period_us) {
  if (quota_us == "max" || quota_us == "-1") return std::nullopt;
  const auto quota = number(quota_us, path);
  const auto period = number(period_us, path);
  if (quota <= 0 || period <= 0) makes_no_sense(path, format_text("{} {}", quota_us, period_us));
  return Limited<double>{static_cast<double>(quota) / static_cast<double>(period), path};
}

std::optional<Limited<double>> cpu_quota_of(const SysRoot& sysroot, const std::string& group) {
  if (const auto text = read_value(sysroot, group + "/cpu.max")) {
    const auto blank = text->find(' ');
    if (blank == std::string::npos) makes_no_sense(group + "/cpu.max", *text);
    return quota(group + "/cpu.max", std::string_view(*text).substr(0, blank),
                 std::string_view(*text).substr(blank + 1));
  }
  const auto quota_us = read_value(sysroot, group + "/cpu.cfs_quota_us");
  const auto period_us = read_value(sysroot, group + "/cpu.cfs_period_us");
  if (!quota_us || !period_us) return std::nullopt;
  return quota(group + "/cpu.cfs_quota_us", *quota_us, *period_us);
}

std::optional<Limited<std::uint64_t>> memory_of(const SysRoot& sysroot, const std::string& group) {
  for (const char* file : {"/memory.max", "/memory.limit_in_bytes"}) {
    const std::string path = group + file;
    const auto text = read_value(sysroot, path);
    if (!text || *text == "max" || *text == "-1") continue;
    std::uint64_t bytes = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), bytes);
    if (error != std::errc() || end != text->data() + text->size()) makes_no_sense(path, *text);
    if (bytes < kNoLimitBytes) return Limited<std::uint64_t>{bytes, path};
  }
  return std::nullopt;
}

}  // namespace

CgroupLimits read_cgroup_limits(const SysRoot& sysroot) {
  const CgroupPaths paths = read_cgroup_paths(sysroot);
  const auto cpuset = groups_of(sysroot, paths, "cpuset");
  const auto cpu = groups_of(sysroot, paths, "cpu");
  const auto memory = groups_of(sysroot, paths, "memory");

  CgroupLimits limits;
  // The names in v2, in v1, and in v1 mounted with noprefix. Effective lists come first, because the others
  // may name CPUs that are gone.
  limits.cpus = nearest_list<CpuSet>(
      sysroot, cpuset, {"/cpuset.cpus.effective", "/cpuset.effective_cpus", "/cpuset.cpus", "/cpus"},
      parse_cpu_list);
  limits.mems = nearest_list<NodeSet>(
      sysroot, cpuset, {"/cpuset.mems.effective", "/cpuset.effective_mems", "/cpuset.mems", "/mems"},
      parse_node_list);
  limits.cpu_quota =
      tightest<double>(cpu, [&](const std::string& group) { return cpu_quota_of(sysroot, group); });
  limits.memory_bytes =
      tightest<std::uint64_t>(memory, [&](const std::string& group) { return memory_of(sysroot, group); });
  return limits;
}

}  // namespace zf
