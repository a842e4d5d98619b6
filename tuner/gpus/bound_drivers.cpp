#include "gpus/bound_drivers.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "base/format.hpp"
#include "children/child_output.hpp"
#include "topology/gpu_rules.hpp"

namespace zf {
namespace {

/// Runs in the child. Returns "ADDRESS DRIVER" for each GPU that has a driver.
std::string lines_of_drivers(const SysRoot& sysroot, const std::vector<Gpu>& gpus) {
  std::string lines;
  for (const Gpu& gpu : gpus) {
    std::istringstream uevent(
        sysroot.read(format_text("/sys/bus/pci/devices/{}/uevent", gpu.pci_address)).value_or(""));
    for (std::string line; std::getline(uevent, line);) {
      if (line.starts_with("DRIVER=")) lines += format_text("{} {}\n", gpu.pci_address, line.substr(7));
    }
  }
  return lines;
}

}  // namespace

std::string leave_out_by_driver(const SysRoot& sysroot, Topology& topology,
                                std::chrono::milliseconds deadline) {
  if (topology.gpus.empty()) return {};
  const auto output = output_of_child([&] { return lines_of_drivers(sysroot, topology.gpus); }, deadline);
  if (output.end != ChildOutput::End::done) {
    return output.end == ChildOutput::End::late
               ? format_text(
                     "which drivers the GPUs have is not known: /sys/bus/pci did not answer within {} ms",
                     deadline.count())
               : "which drivers the GPUs have is not known: reading /sys/bus/pci failed";
  }
  std::map<std::string, std::string> why;  // by PCI address
  std::istringstream lines(output.text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t end_of_address = line.find(' ');
    why[line.substr(0, end_of_address)] = why_no_gpu_with(line.substr(end_of_address + 1));
  }
  const auto stays = [&](const Gpu& gpu) {
    const auto found = why.find(gpu.pci_address);
    return found == why.end() || found->second.empty();
  };
  const auto first = std::stable_partition(topology.gpus.begin(), topology.gpus.end(), stays);
  for (auto gpu = first; gpu != topology.gpus.end(); ++gpu)
    topology.left_out.push_back({gpu->pci_address, gpu->name, why[gpu->pci_address]});
  topology.gpus.erase(first, topology.gpus.end());
  std::sort(topology.left_out.begin(), topology.left_out.end(),
            [](const auto& a, const auto& b) { return a.pci_address < b.pci_address; });
  return {};
}

}  // namespace zf
