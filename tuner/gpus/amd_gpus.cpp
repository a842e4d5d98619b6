#include "gpus/amd_gpus.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <sstream>

#include "base/format.hpp"
#include "children/child_output.hpp"
#include "text/units.hpp"
#include "topology/pci_vendors.hpp"

namespace zf {
namespace {

constexpr const char* kNodes = "/sys/class/kfd/kfd/topology/nodes";
constexpr const char* kAmdUnknown = "the UUIDs and the order of AMD's GPUs are unknown";

/// Returns the "location_id 49408" lines of a node by name; empty if it cannot be read: the kernel hides GPUs
/// that the job's cgroup does not give to it.
std::map<std::string, std::uint64_t> properties_in(const std::string& text) {
  std::map<std::string, std::uint64_t> properties;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto blank = line.find(' ');
    if (blank == std::string::npos) continue;
    if (const auto value = parse_number<std::uint64_t>(line.substr(blank + 1)))
      properties[line.substr(0, blank)] = *value;
  }
  return properties;
}

/// Returns "0000:c1:00.0". location_id has the bus in bits 8 to 15, the device in 3 to 7 and the function in
/// 0 to 2.
std::string pci_address(std::uint64_t domain, std::uint64_t location) {
  return format_text("{:04x}:{:02x}:{:02x}.{:x}", domain, (location >> 8) & 0xff, (location >> 3) & 0x1f,
                     location & 0x7);
}

/// Runs in the child. Returns "ADDRESS UNIQUE_ID" for each GPU in the order of the nodes; 0 is an unknown
/// number.
std::string amd_driver_lines(const SysRoot& sysroot) {
  std::vector<int> nodes;
  for (const std::string& name : sysroot.list(kNodes)) {
    if (const auto number = parse_number<int>(name)) nodes.push_back(*number);
  }
  std::sort(nodes.begin(), nodes.end());
  std::string lines;
  for (const int node : nodes) {
    auto properties = properties_in(sysroot.read(format_text("{}/{}/properties", kNodes, node)).value_or(""));
    if (properties["simd_count"] == 0) continue;  // a CPU
    const std::string address = pci_address(properties["domain"], properties["location_id"]);
    std::uint64_t id = properties["unique_id"];
    if (id == 0) {
      const auto text = sysroot.read(format_text("/sys/bus/pci/devices/{}/unique_id", address));
      id = text ? parse_number<std::uint64_t>(*text, 16).value_or(0) : 0;
    }
    lines += format_text("{} {}\n", address, id);
  }
  return lines;
}

}  // namespace

std::string read_amd_gpus(const SysRoot& sysroot, std::vector<Gpu>& gpus,
                          std::chrono::milliseconds deadline) {
  if (gpus.empty() || sysroot.list(kNodes).empty()) return {};
  const auto output = output_of_child([&] { return amd_driver_lines(sysroot); }, deadline);
  if (output.end == ChildOutput::End::late) {
    return format_text("AMD's GPU driver did not answer within {} ms (it may hang): {}", deadline.count(),
                       kAmdUnknown);
  }
  if (output.end == ChildOutput::End::died)
    return format_text("reading AMD's GPU driver failed: {}", kAmdUnknown);

  std::map<std::string, int> parts;  // nodes by PCI address
  int number = 0;
  std::istringstream words(output.text);
  std::uint64_t id = 0;
  for (std::string address; words >> address >> id; ++number) {
    const auto gpu =
        std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& one) { return one.pci_address == address; });
    if (gpu == gpus.end()) continue;
    gpu->parts = ++parts[address];
    if (gpu->parts == 1) gpu->framework_number = number;
    if (gpu->framework_number && number != *gpu->framework_number + gpu->parts - 1)
      gpu->framework_number.reset();
    if (id == 0) continue;
    if (gpu->parts > 1 && !gpu->uuid.empty()) gpu->aliases.push_back(gpu->uuid);
    gpu->uuid = format_text("GPU-{:016x}", id);
  }
  for (Gpu& gpu : gpus) {
    if (gpu.vendor_id != kAmd || parts.empty() || parts.contains(gpu.pci_address)) continue;
    gpu.usable = false;
    gpu.why_unusable = kHiddenByDriver;
  }
  return {};
}

}  // namespace zf
