#include "inspect/processes.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "os/cgroup_path.hpp"
#include "os/online_cpus.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// Returns the names in a folder that are numbers, ascending.
std::vector<int> numbers_in(const SysRoot& sysroot, const std::string& folder) {
  std::vector<int> ids;
  for (const std::string& name : sysroot.list(folder)) {
    if (const auto id = parse_number<int>(name)) ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

/// Returns the "Name:\tvalue" lines of a status file by name.
std::map<std::string, std::string> status_of(const std::string& text) {
  std::map<std::string, std::string> fields;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(':');
    const auto value = line.find_first_not_of(" \t", std::min(colon, line.size() - 1) + 1);
    if (colon == std::string::npos || value == std::string::npos) continue;
    fields[line.substr(0, colon)] = line.substr(value);
  }
  return fields;
}

/// Reads fields 14, 15 and 39 of stat (proc(5)). It counts from behind the name, which may contain blanks and
/// brackets.
void read_times(const std::string& stat, ThreadState& thread) {
  std::istringstream fields(stat.substr(std::min(stat.rfind(')') + 1, stat.size())));
  std::string field;
  for (int n = 3; fields >> field; ++n) {
    if (n == 14 || n == 15) thread.ticks += static_cast<std::uint64_t>(parse_number<int>(field).value_or(0));
    if (n == 39) thread.last_cpu = Pu{parse_number<int>(field).value_or(0)};
  }
}

/// Adds one line of numa_maps: "7f6c prefer:0 anon=12 dirty=12 N0=10 N1=2 kernelpagesize_kB=4".
void add_line(const std::string& line, MemoryByNode& memory) {
  std::istringstream words(line);
  std::string word;
  bool counts = false;
  std::uint64_t page_bytes = 4096;
  MemoryByNode pages;
  while (words >> word) {
    const auto equals = word.find('=');
    if (equals == std::string::npos) continue;
    const std::string_view name = std::string_view(word).substr(0, equals);
    const std::string_view value = std::string_view(word).substr(equals + 1);
    counts = counts || name == "anon" || (name == "file" && value.starts_with("/memfd:"));
    if (name == "kernelpagesize_kB") page_bytes = parse_number<std::uint64_t>(value).value_or(4) << 10;
    if (!name.starts_with('N')) continue;
    const auto node = parse_number<int>(name.substr(1));
    const auto count = parse_number<std::uint64_t>(value);
    if (node && count) pages[Node{*node}] += *count;
  }
  if (!counts) return;
  for (const auto& [node, count] : pages) memory[node] += count * page_bytes;
}

/// Returns the control groups of a process. Where they lie in the file system is the same for all processes
/// that we can see.
CgroupPaths cgroups_of(const SysRoot& sysroot, int pid) {
  CgroupPaths paths = read_cgroup_paths(sysroot);
  paths.by_controller.clear();
  paths.unified.clear();
  std::istringstream lines(sysroot.read(format_text("/proc/{}/cgroup", pid)).value_or(""));
  for (std::string line; std::getline(lines, line);) {  // "4:cpuset,cpu:/job" in v1, "0::/job" in v2
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers == ",,") paths.unified = line.substr(second + 1);
    if (controllers.find(",cpuset,") != std::string::npos)
      paths.by_controller["cpuset"] = line.substr(second + 1);
  }
  return paths;
}

}  // namespace

std::vector<int> process_ids(const SysRoot& sysroot) { return numbers_in(sysroot, "/proc"); }

std::optional<ProcessState> read_process(const SysRoot& sysroot, int pid) {
  ProcessState process;
  process.pid = pid;
  for (const int tid : numbers_in(sysroot, format_text("/proc/{}/task", pid))) {
    const std::string folder = format_text("/proc/{}/task/{}", pid, tid);
    const auto status = sysroot.read(folder + "/status");
    const auto stat = sysroot.read(folder + "/stat");
    if (!status || !stat) continue;
    auto fields = status_of(*status);
    ThreadState thread;
    thread.tid = tid;
    thread.name = fields["Name"];
    thread.cpus = parse_cpu_list(fields["Cpus_allowed_list"], folder + "/status");
    read_times(*stat, thread);
    if (tid == pid) {
      process.parent = parse_number<int>(fields["PPid"]).value_or(0);
      process.name = thread.name;
      process.threads.insert(process.threads.begin(), std::move(thread));
    } else {
      process.threads.push_back(std::move(thread));
    }
  }
  if (process.threads.empty()) return std::nullopt;
  return process;
}

std::optional<Environment> environment_of(const SysRoot& sysroot, int pid) {
  const auto text = sysroot.read(format_text("/proc/{}/environ", pid));
  if (!text) return std::nullopt;
  std::map<std::string, std::string> variables;
  std::istringstream entries(*text);
  for (std::string entry; std::getline(entries, entry, '\0');) {
    const auto equals = entry.find('=');
    if (equals != std::string::npos) variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return Environment(std::move(variables));
}

CpuSet available_cpus(const SysRoot& sysroot, int pid) {
  const CpuSet online = read_online_cpus(sysroot).cpus;
  for (const std::string& group : groups_of(sysroot, cgroups_of(sysroot, pid), "cpuset")) {
    for (const char* const file : {"/cpuset.cpus.effective", "/cpuset.effective_cpus"}) {
      const auto text = sysroot.read(group + file);
      const CpuSet cpus = parse_cpu_list(text.value_or(""), group + file);
      if (!cpus.empty()) return online & cpus;
    }
  }
  return online;
}

MemoryByNode memory_of_numa_maps(std::string_view text) {
  MemoryByNode memory;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) add_line(line, memory);
  return memory;
}

std::optional<MemoryByNode> memory_by_node(const SysRoot& sysroot, int pid) {
  const auto text = sysroot.read(format_text("/proc/{}/numa_maps", pid));
  return text ? std::optional(memory_of_numa_maps(*text)) : std::nullopt;
}

}  // namespace zf
