#include "machine/hwloc_view.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"

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
  std::ofstream file(path);
  file << text << '\n';
  if (!file.flush())
    throw fs::filesystem_error("cannot write", path, std::make_error_code(std::errc::io_error));
}

/// Returns the CPUs as a mask of the kernel: words of 32 bits in hexadecimal, the highest first.
std::string mask_of(const CpuSet& cpus) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(cpus.last().os_index / 32) + 1);
  for (const Pu cpu : cpus)
    words[static_cast<std::size_t>(cpu.os_index / 32)] |= std::uint32_t{1} << (cpu.os_index % 32);
  std::string mask;
  for (auto word = words.rbegin(); word != words.rend(); ++word)
    mask += format_text("{}{:08x}", mask.empty() ? "" : ",", *word);
  return mask;
}

/// Gives the CPU a folder with a topology in which it is a core of its own, in no package.
void make_core(const fs::path& from, const fs::path& to, Pu cpu) {
  link_entries(from, to, {"topology"});
  const fs::path topology = to / "topology";
  fs::create_directories(topology);
  write_file(topology / "core_id", std::to_string(cpu.os_index));
  for (const char* const name : {"core_cpus", "thread_siblings"}) write_file(topology / name, mask_of({cpu}));
}

void fill(const fs::path& machine, const fs::path& view, const CpuSet& online, const HiddenCpus& hidden) {
  fs::create_symlink(machine / "proc", view / "proc");
  link_entries(machine / "sys", view / "sys", {"bus", "devices"});
  link_entries(machine / "sys/bus", view / "sys/bus", {"cpu"});  // shows the CPUs once more
  link_entries(machine / "sys/devices", view / "sys/devices", {"system"});
  link_entries(machine / "sys/devices/system", view / "sys/devices/system", {"cpu"});
  link_entries(machine / kCpus, view / kCpus, {"online"});
  write_file(view / kCpus / "online", print(online));
  for (const Pu cpu : hidden.unlisted | hidden.without_topology) {
    const fs::path from = machine / kCpus / folder_name(cpu);
    const fs::path to = view / kCpus / folder_name(cpu);
    fs::remove(to);
    if (hidden.without_topology.contains(cpu)) {
      make_core(from, to, cpu);
    } else {
      fs::create_symlink(from, to);  // lxcfs opens also what it does not list
    }
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
  return hidden;
}

std::string unknown_topology(const CpuSet& without_topology) {
  if (without_topology.empty()) return {};
  const bool one = without_topology.size() == 1;
  return format_text(
      "the {} of {} {} unknown: /{} has no topology folder of {} (gVisor, or /sys is mounted in part); {} "
      "counts as a core",
      one ? "core, cache and package" : "cores, caches and packages", print_cpus(without_topology),
      one ? "is" : "are", kCpus, one ? "it" : "them", one ? "it" : "each");
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
    fill(machine.path(), folder_.path(), online.cpus, hidden);
  } catch (const fs::filesystem_error& error) {
    throw Error(Exit::runtime_error, format_text("cannot fill the folder {}: {}", folder_.path().string(),
                                                 error.code().message()));
  }
}

PciLocality stray_buses(const SysRoot& sysroot, const CpuSet& online) {
  PciLocality locality;
  std::set<std::string> buses;
  for (const std::string& address : sysroot.list("/sys/bus/pci/devices")) {
    const auto list = sysroot.read(format_text("/sys/bus/pci/devices/{}/local_cpulist", address));
    try {
      const CpuSet near = parse_cpu_list(list.value_or(""), address);
      if (!near.empty() && !near.intersects(online)) buses.insert(address.substr(0, address.rfind(':')));
    } catch (const Error&) {  // a list that nobody can read says nothing
    }
  }
  for (const std::string& bus : buses) {
    locality.variable += format_text("{} {}\n", bus, mask_of(online));
    locality.buses += format_text("{}{}", locality.buses.empty() ? "" : ", ", bus);
  }
  return locality;
}

}  // namespace zf
