#include "machine/device_interrupts.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// Returns the numbers of a device's interrupts. `folder` is the device's below /sys.
std::vector<int> numbers_of(const SysRoot& sysroot, const std::string& folder) {
  std::vector<int> numbers;
  for (const std::string& name : sysroot.list(folder + "/msi_irqs")) {
    if (const auto number = parse_number<int>(name)) numbers.push_back(*number);
  }
  if (!numbers.empty()) return numbers;
  const auto line = sysroot.read(folder + "/irq");
  const auto number = line ? parse_number<int>(*line) : std::nullopt;
  return number && *number > 0 ? std::vector{*number} : std::vector<int>();
}

/// Returns the CPUs that serve an interrupt; none if it is not in use, or if the kernel does not tell.
CpuSet cpus_of(const SysRoot& sysroot, int number) {
  for (const char* const file : {"effective_affinity_list", "smp_affinity_list"}) {
    const std::string path = format_text("/proc/irq/{}/{}", number, file);
    const auto list = sysroot.read(path);
    if (!list) continue;
    try {
      return list->empty() ? CpuSet() : parse_cpu_list(*list, path);  // empty: no CPU serves it now
    } catch (const Error&) {                                          // no list: try the next file
    }
  }
  return {};
}

std::optional<DeviceInterrupts> interrupts_of(const SysRoot& sysroot, std::string device,
                                              const std::string& folder) {
  DeviceInterrupts found{std::move(device), 0, {}};
  for (const int number : numbers_of(sysroot, folder)) {
    const CpuSet cpus = cpus_of(sysroot, number);
    found.count += cpus.empty() ? 0 : 1;
    found.cpus |= cpus;
  }
  return found.count > 0 ? std::optional(std::move(found)) : std::nullopt;
}

}  // namespace

std::vector<DeviceInterrupts> read_device_interrupts(const SysRoot& sysroot, const std::vector<Gpu>& gpus) {
  std::vector<DeviceInterrupts> devices;
  for (const Gpu& gpu : gpus) {
    if (auto found =
            interrupts_of(sysroot, "GPU " + gpu.pci_address, "/sys/bus/pci/devices/" + gpu.pci_address))
      devices.push_back(*std::move(found));
  }
  // An InfiniBand card is in both folders. It counts once, by the numbers of its interrupts.
  std::set<std::vector<int>> seen;
  for (const char* const kind : {"/sys/class/infiniband", "/sys/class/net"}) {
    for (const std::string& name : sysroot.list(kind)) {
      const std::string folder = format_text("{}/{}/device", kind, name);
      if (!seen.insert(numbers_of(sysroot, folder)).second) continue;
      if (auto found = interrupts_of(sysroot, "network card " + name, folder))
        devices.push_back(*std::move(found));
    }
  }
  return devices;
}

std::vector<std::string> interrupts_in_words(const std::vector<DeviceInterrupts>& devices) {
  std::vector<std::string> lines;
  std::vector<const DeviceInterrupts*> left;
  for (const DeviceInterrupts& device : devices) left.push_back(&device);
  while (!left.empty()) {
    const CpuSet cpus = left.front()->cpus;
    std::vector<std::string> names;
    int count = 0;
    std::erase_if(left, [&](const DeviceInterrupts* device) {
      if (device->cpus != cpus) return false;
      names.push_back(device->device);
      count += device->count;
      return true;
    });
    lines.push_back(format_text("{} {} {} of {}", print_cpus(cpus), cpus.size() == 1 ? "serves" : "serve",
                                print_count(count, "interrupt"), join_text(names, ", ")));
  }
  return lines;
}

}  // namespace zf
