#include "topology/hwloc_view.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/file_descriptor.hpp"
#include "base/format.hpp"
#include "os/file.hpp"

namespace zf {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCpus = "sys/devices/system/cpu";

/// hwloc compares each core with all others that lie in no package.
constexpr std::size_t kMostUnknownCores = 1024;

std::string folder_name(Pu cpu) { return format_text("cpu{}", cpu.os_index); }

/// Returns true if hwloc finds the core of this CPU. Kernels before 5.3 have the former of the two names.
bool has_core(const SysRoot& sysroot, Pu cpu) {
  const std::string folder = format_text("/{}/{}/topology/", kCpus, folder_name(cpu));
  return sysroot.exists(folder + "thread_siblings") || sysroot.exists(folder + "core_cpus");
}

/// Makes links in the folder `to` to all that the folder `from` lists, except what is named.
void link_entries(const fs::path& from, const fs::path& to, std::initializer_list<std::string_view> except) {
  fs::create_directories(to);
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(from, unreadable)) {
    const std::string name = entry.path().filename().string();
    if (std::find(except.begin(), except.end(), name) == except.end())
      fs::create_symlink(entry.path(), to / name);
  }
}

void write_file(const fs::path& path, const std::string& text) {
  const std::string line = text + '\n';
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const int error = file.valid() ? write_all(file.get(), std::as_bytes(std::span(line))) : errno;
  if (error != 0)
    throw fs::filesystem_error("cannot write", path, std::error_code(error, std::generic_category()));
}

/// Returns the CPUs that these files of a CPU's topology folder list; empty if none of them can be read.
CpuSet listed_in(const SysRoot& sysroot, Pu cpu, std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const std::string path = format_text("/{}/{}/topology/{}", kCpus, folder_name(cpu), name);
    try {
      if (const auto list = sysroot.read(path)) return parse_cpu_list(*list, path);
    } catch (const Error&) {  // a list that cannot be read says nothing
    }
  }
  return {};
}

CpuSet siblings_of(const SysRoot& sysroot, Pu cpu) {
  return listed_in(sysroot, cpu, {"core_cpus_list", "thread_siblings_list"});
}

/// Returns a CPU of the same package that has a topology folder; nothing if none names this CPU.
std::optional<Pu> neighbour_of(const SysRoot& sysroot, Pu cpu, const CpuSet& online) {
  for (const Pu other : online) {
    if (listed_in(sysroot, other, {"package_cpus_list", "core_siblings_list"}).contains(cpu)) return other;
  }
  return std::nullopt;
}

/// Gives the CPU a folder with the topology of its sibling: all files of that are the same. hwloc takes a
/// cache from its first CPU alone, so the CPU gets the sibling's caches, too, if it shows none.
void copy_core(const fs::path& from, const fs::path& to, const fs::path& sibling) {
  const bool has_caches = fs::exists(from / "cache");
  link_entries(from, to, {"topology"});
  fs::create_symlink(sibling / "topology", to / "topology");
  if (!has_caches && fs::exists(sibling / "cache")) fs::create_symlink(sibling / "cache", to / "cache");
}

/// Returns the names of the files that have a CPU's siblings, as this kernel has them: hwloc reads of all
/// CPUs only those names that CPU 0 has.
std::vector<const char*> names_of_siblings(const SysRoot& sysroot, const CpuSet& online) {
  std::vector<const char*> names{"core_cpus", "thread_siblings"};
  const auto known =
      std::find_if(online.begin(), online.end(), [&](Pu cpu) { return has_core(sysroot, cpu); });
  if (known == online.end()) return names;
  const std::string folder = format_text("/{}/{}/topology/", kCpus, folder_name(*known));
  std::erase_if(names, [&](const char* name) { return !sysroot.exists(folder + name); });
  return names;
}

/// Gives the CPU a folder with a topology in which it is a core of its own, in the neighbour's package.
void make_core(const fs::path& from, const fs::path& to, Pu cpu, const std::optional<fs::path>& neighbour,
               const std::vector<const char*>& names) {
  link_entries(from, to, {"topology"});
  const fs::path topology = to / "topology";
  fs::create_directories(topology);
  if (neighbour) {
    for (const char* const name : {"physical_package_id", "core_siblings", "package_cpus"}) {
      if (fs::exists(*neighbour / "topology" / name))
        fs::create_symlink(*neighbour / "topology" / name, topology / name);
    }
  }
  write_file(topology / "core_id", std::to_string(cpu.os_index));
  for (const char* const name : names) write_file(topology / name, print_mask({cpu}));
}

void fill(const SysRoot& sysroot, const fs::path& view, const CpuSet& online, const HiddenCpus& hidden) {
  const fs::path& machine = sysroot.path();
  fs::create_symlink(machine / "proc", view / "proc");
  link_entries(machine / "sys", view / "sys", {"bus", "devices"});
  link_entries(machine / "sys/bus", view / "sys/bus", {"cpu"});  // shows the CPUs once more
  link_entries(machine / "sys/devices", view / "sys/devices", {"system"});
  link_entries(machine / "sys/devices/system", view / "sys/devices/system", {"cpu"});
  link_entries(machine / kCpus, view / kCpus, {"online"});
  write_file(view / kCpus / "online", print(online));
  const auto path_in = [](const fs::path& root, Pu cpu) { return root / kCpus / folder_name(cpu); };
  for (const Pu cpu : hidden.unlisted) {
    fs::remove(path_in(view, cpu));
    fs::create_symlink(path_in(machine, cpu), path_in(view, cpu));  // lxcfs opens also what it does not list
  }
  for (const auto& [cpu, sibling] : hidden.siblings) {
    fs::remove(path_in(view, cpu));
    copy_core(path_in(machine, cpu), path_in(view, cpu), path_in(machine, sibling));
  }
  const auto names = names_of_siblings(sysroot, online);
  for (const Pu cpu : hidden.without_topology) {
    const auto neighbour = neighbour_of(sysroot, cpu, online);
    fs::remove(path_in(view, cpu));
    make_core(path_in(machine, cpu), path_in(view, cpu), cpu,
              neighbour ? std::optional(path_in(machine, *neighbour)) : std::nullopt, names);
  }
}

}  // namespace

HiddenCpus hidden_cpus(const SysRoot& sysroot, const OnlineCpus& online) {
  HiddenCpus hidden;
  const std::vector<std::string> names = sysroot.list(format_text("/{}", kCpus));
  const std::set<std::string> folders(names.begin(), names.end());
  for (const Pu cpu : online.cpus) {
    const bool has_folder = folders.contains(folder_name(cpu));
    if (has_core(sysroot, cpu)) {
      if (!has_folder || !online.listed.contains(cpu)) hidden.unlisted.insert(cpu);
    } else if (has_folder || !online.mask || online.mask->contains(cpu)) {
      hidden.without_topology.insert(cpu);
    }  // else only a list names it, which may be damaged
  }
  if (hidden.without_topology.empty()) return hidden;
  for (const Pu cpu : online.cpus - hidden.without_topology) {
    const CpuSet siblings = siblings_of(sysroot, cpu) & hidden.without_topology;
    for (const Pu sibling : siblings) hidden.siblings.emplace(sibling, cpu);
    hidden.without_topology = hidden.without_topology - siblings;
  }
  return hidden;
}

std::string unknown_topology(const CpuSet& without_topology) {
  if (without_topology.empty()) return {};
  const bool one = without_topology.size() == 1;
  return format_text(
      "the {} of {} {} unknown: /{} has no topology folder of {} (gVisor, or /sys is mounted in part); {} "
      "counts as a core",
      one ? "core" : "cores", print_cpus(without_topology), one ? "is" : "are", kCpus, one ? "it" : "them",
      one ? "it" : "each");
}

HwlocView::HwlocView(const SysRoot& machine, const OnlineCpus& online, const HiddenCpus& hidden)
    : folder_("zf-tune-sys") {
  if (const std::size_t cores = hidden.without_topology.size(); cores > kMostUnknownCores) {
    throw Error(Exit::runtime_error,
                format_text("{} CPUs without a topology folder are more than the {} that "
                            "can be cores of their own",
                            cores, kMostUnknownCores));
  }
  try {
    fill(machine, folder_.path(), online.cpus, hidden);
  } catch (const fs::filesystem_error& error) {
    throw_errno(error.code().value(), format_text("cannot fill the folder {}", folder_.path().string()),
                writing_hint(error.code().value()));
  }
}

}  // namespace zf
