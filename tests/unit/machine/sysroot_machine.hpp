// The /proc and /sys of a machine with one package and one NUMA node, as a folder.
#pragma once

#include <array>
#include <string_view>

#include "../os/tree.hpp"
#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "machine/machine.hpp"

namespace zf {

/// Adds `cpus` cores of one PU each, at most 32, with 1 GiB of memory.
inline void add_cores(Tree& tree, int cpus) {
  const std::string list = format_text("0-{}", cpus - 1);
  const std::string mask = format_text("{:x}", (std::uint64_t{1} << cpus) - 1);
  tree.machine(list, "0").file("/sys/devices/system/cpu/possible", list);
  tree.file("/sys/devices/system/node/online", "0");
  tree.file("/sys/devices/system/node/node0/cpumap", mask);
  tree.file("/sys/devices/system/node/node0/cpulist", list);
  tree.file("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       1048576 kB");
  for (int cpu = 0; cpu < cpus; ++cpu) {
    const std::string folder = format_text("/sys/devices/system/cpu/cpu{}/topology/", cpu);
    const std::string own = format_text("{:x}", std::uint64_t{1} << cpu);
    tree.file(folder + "core_id", std::to_string(cpu)).file(folder + "physical_package_id", "0");
    tree.file(folder + "thread_siblings", own).file(folder + "core_cpus", own);
    tree.file(folder + "core_siblings", mask).file(folder + "package_cpus", mask);
  }
}

/// The CPU numbers of eight cores, by core: as they are, mirrored, and shuffled.
constexpr std::array<std::array<int, 8>, 3> kNumberings{
    {{0, 1, 2, 3, 4, 5, 6, 7}, {7, 6, 5, 4, 3, 2, 1, 0}, {3, 6, 0, 5, 7, 1, 4, 2}}};

/// Returns the CPUs of these cores.
inline CpuSet numbered(std::string_view cores, const std::array<int, 8>& numbers) {
  CpuSet cpus;
  for (const Pu core : parse_cpu_list(cores, "test"))
    cpus.insert(Pu{numbers[static_cast<std::size_t>(core.os_index)]});
  return cpus;
}

/// Reads the machine of this folder.
inline Machine machine_in(const Tree& tree, bool keep_isolated = false) {
  MachineSource source;
  source.sysroot = tree.sysroot();
  source.keep_isolated = keep_isolated;
  return read_machine(source);
}

}  // namespace zf
