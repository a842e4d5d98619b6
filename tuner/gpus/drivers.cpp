#include "gpus/drivers.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/format.hpp"
#include "children/child_output.hpp"
#include "text/units.hpp"
#include "topology/gpu_rules.hpp"

namespace zf {
namespace {

constexpr const char* kNvidiaFolder = "/proc/driver/nvidia/gpus";
constexpr const char* kAmdNodes = "/sys/class/kfd/kfd/topology/nodes";

/// What a child has read, or a sentence that says why nothing is known.
struct Answer {
  std::istringstream lines;
  std::string missing;
};

/// Lets a child read. `who` names what answers, `unknown` what is not known without the answer.
Answer ask(const std::function<std::string()>& read, std::chrono::milliseconds deadline, const char* who,
           const char* unknown) {
  const ChildOutput output = output_of_child(read, deadline);
  Answer answer{std::istringstream(output.text), {}};
  if (output.end == ChildOutput::End::late) {
    answer.missing =
        format_text("{} did not answer within {} ms (it may hang): {}", who, deadline.count(), unknown);
  }
  if (output.end == ChildOutput::End::died)
    answer.missing = format_text("reading {} failed: {}", who, unknown);
  return answer;
}

/// Returns what stands on the line of a label such as "Model:", without the blanks before it; empty if there
/// is no such line.
std::string line_in(const std::string& information, std::string_view label) {
  const auto found = information.find(label);
  if (found == std::string::npos) return {};
  const auto begin = information.find_first_not_of(" \t", found + label.size());
  if (begin == std::string::npos) return {};
  return information.substr(begin, information.find('\n', begin) - begin);
}

/// Returns the first word of line_in().
std::string word_in(const std::string& information, std::string_view label) {
  const std::string line = line_in(information, label);
  return line.substr(0, line.find_first_of(" \t"));
}

/// Runs in the child. Returns "ADDRESS DRIVER" for each GPU that has a driver.
std::string bound_drivers(const SysRoot& sysroot, const std::vector<Gpu>& gpus) {
  std::string lines;
  for (const Gpu& gpu : gpus) {
    const auto uevent = sysroot.read(format_text("/sys/bus/pci/devices/{}/uevent", gpu.pci_address));
    const std::string driver = word_in("\n" + uevent.value_or(""), "\nDRIVER=");
    if (!driver.empty()) lines += format_text("{} {}\n", gpu.pci_address, driver);
  }
  return lines;
}

/// Returns true for "0000:3b:00.0".
bool is_pci_address(const std::string& name) {
  return name.find_first_not_of("0123456789abcdef:.") == std::string::npos && name.find(':') == 4 &&
         name.find('.') == name.size() - 2;
}

std::optional<int> parse_minor(const std::string& text) {
  const auto minor = parse_number<int>(text);
  return minor && *minor >= 0 ? minor : std::nullopt;
}

/// Runs in the child. Returns "ADDRESS MINOR UUID MODEL" for each GPU of NVIDIA's folder, with "-" for what
/// is unknown; the model may have several words or none. Before the GPU's first use the driver writes
/// question marks for its UUID.
std::string nvidia_lines(const SysRoot& sysroot) {
  std::string lines;
  for (const std::string& address : sysroot.list(kNvidiaFolder)) {
    const std::string information =
        sysroot.read(format_text("{}/{}/information", kNvidiaFolder, address)).value_or("");
    const auto minor = parse_minor(word_in(information, "Device Minor:"));
    const std::string uuid = word_in(information, "GPU UUID:");
    const bool known = !uuid.empty() && uuid.find('?') == std::string::npos;
    lines += format_text("{} {} {} {}\n", address, minor ? std::to_string(*minor) : "-", known ? uuid : "-",
                         line_in(information, "Model:"));
  }
  return lines;
}

struct NvidiaGpu {
  std::optional<int> minor;
  std::string uuid;
  std::string model;
};

/// Reads nvidia_lines() back, by PCI address.
std::map<std::string, NvidiaGpu> nvidia_gpus(std::istringstream& lines) {
  std::map<std::string, NvidiaGpu> gpus;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string address, minor, uuid, model;
    words >> address >> minor >> uuid;
    std::getline(words >> std::ws, model);
    gpus[address] = {parse_minor(minor), uuid == "-" ? "" : uuid, model};
  }
  return gpus;
}

/// Returns the "location_id 49408" lines of one of AMD's nodes by name; empty if it cannot be read: the
/// kernel hides GPUs that the job's cgroup does not give to it.
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

/// Runs in the child. Returns "ADDRESS UNIQUE_ID" for each of AMD's GPUs in the order of the nodes; 0 is an
/// unknown number.
std::string amd_lines(const SysRoot& sysroot) {
  std::set<int> nodes;
  for (const std::string& name : sysroot.list(kAmdNodes)) {
    if (const auto number = parse_number<int>(name)) nodes.insert(*number);
  }
  std::string lines;
  for (const int node : nodes) {
    auto properties =
        properties_in(sysroot.read(format_text("{}/{}/properties", kAmdNodes, node)).value_or(""));
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

std::string leave_out_by_driver(const SysRoot& sysroot, Topology& topology,
                                std::chrono::milliseconds deadline) {
  if (topology.gpus.empty()) return {};
  Answer answer = ask([&] { return bound_drivers(sysroot, topology.gpus); }, deadline, "/sys/bus/pci",
                      "which drivers the GPUs have is not known");
  if (!answer.missing.empty()) return answer.missing;
  std::map<std::string, std::string> why;  // by PCI address
  for (std::string address, driver; answer.lines >> address >> driver;)
    why[address] = why_no_gpu_with(driver);
  const auto first = std::stable_partition(topology.gpus.begin(), topology.gpus.end(),
                                           [&](const Gpu& gpu) { return why[gpu.pci_address].empty(); });
  for (auto gpu = first; gpu != topology.gpus.end(); ++gpu)
    topology.left_out.push_back({gpu->pci_address, gpu->name, why[gpu->pci_address]});
  topology.gpus.erase(first, topology.gpus.end());
  std::ranges::sort(topology.left_out, {}, [](const auto& one) { return one.pci_address; });
  return {};
}

std::vector<Gpu> gpus_of_driver_alone(const SysRoot& sysroot) {
  std::vector<Gpu> gpus;
  if (!sysroot.list("/sys/bus/pci/devices").empty()) return gpus;
  for (const std::string& name : sysroot.list(kNvidiaFolder)) {
    if (!is_pci_address(name)) continue;
    Gpu& gpu = gpus.emplace_back();
    gpu.pci_address = name;
    gpu.name = "NVIDIA GPU";
    gpu.vendor_id = kNvidia;
  }
  return gpus;
}

std::string read_nvidia_driver(const SysRoot& sysroot, std::vector<Gpu>& gpus,
                               std::chrono::milliseconds deadline) {
  if (gpus.empty()) return {};
  Answer answer = ask([&] { return nvidia_lines(sysroot); }, deadline, "the GPU driver",
                      "the UUIDs and device numbers of the GPUs are unknown");
  const auto shown = nvidia_gpus(answer.lines);
  if (shown.empty()) return answer.missing;
  for (Gpu& gpu : gpus) {
    const auto found = shown.find(gpu.pci_address);
    gpu.usable = found != shown.end();
    gpu.why_unusable = gpu.usable ? "" : kHiddenByDriver;
    gpu.minor = gpu.usable ? found->second.minor : std::nullopt;
    gpu.uuid = gpu.usable ? found->second.uuid : std::string();
    if (gpu.usable && !found->second.model.empty()) gpu.name = found->second.model;
  }
  return {};
}

std::string read_amd_driver(const SysRoot& sysroot, std::vector<Gpu>& gpus,
                            std::chrono::milliseconds deadline) {
  if (gpus.empty() || sysroot.list(kAmdNodes).empty()) return {};
  Answer answer = ask([&] { return amd_lines(sysroot); }, deadline, "AMD's GPU driver",
                      "the UUIDs and the order of AMD's GPUs are unknown");
  std::map<std::string, int> parts;  // nodes by PCI address
  int number = 0;
  std::uint64_t id = 0;
  for (std::string address; answer.lines >> address >> id; ++number) {
    Gpu* const gpu = gpu_at(gpus, address);
    if (gpu == nullptr) continue;
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
  return answer.missing;
}

}  // namespace zf
