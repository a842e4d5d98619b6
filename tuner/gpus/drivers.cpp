// What drivers tell about the GPUs of this node.
#include "gpus/live_gpus.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

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
  std::map<std::string, std::string> texts;  ///< by path
  std::string missing;

  /// Returns the text of a file; empty if it could not be read.
  std::string text(const std::string& path) const {
    const auto found = texts.find(path);
    return found == texts.end() ? "" : found->second;
  }
};

/// Lets a child read files. `who` names what answers, `unknown` what is not known without the answer.
Answer ask(const SysRoot& sysroot, const std::vector<std::string>& paths, std::chrono::milliseconds deadline,
           const char* who, const char* unknown) {
  const auto read = [&] {
    std::string all;
    for (const std::string& path : paths) {
      std::string text = sysroot.read(path).value_or("");
      std::erase(text, '\0');
      all += path + '\0' + text + '\0';
    }
    return all;
  };
  const ChildOutput output = output_of_child(read, deadline);
  Answer answer;
  if (output.end == ChildOutput::End::late) {
    answer.missing =
        format_text("{} did not answer within {} ms (it may hang): {}", who, deadline.count(), unknown);
  }
  if (output.end == ChildOutput::End::died)
    answer.missing = format_text("reading {} failed: {}", who, unknown);
  std::istringstream texts(output.text);
  for (std::string path, text; std::getline(texts, path, '\0') && std::getline(texts, text, '\0');)
    answer.texts[path] = text;
  return answer;
}

/// Returns the path of a file of a PCI device.
std::string pci_file(const std::string& address, const char* file) {
  return format_text("/sys/bus/pci/devices/{}/{}", address, file);
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

/// Returns true for "0000:3b:00.0".
bool is_pci_address(const std::string& name) {
  return name.find_first_not_of("0123456789abcdef:.") == std::string::npos && name.find(':') == 4 &&
         name.find('.') == name.size() - 2;
}

std::optional<int> parse_minor(const std::string& text) {
  const auto minor = parse_number<int>(text);
  return minor && *minor >= 0 ? minor : std::nullopt;
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

std::string amd_node(int number) { return format_text("{}/{}/properties", kAmdNodes, number); }

}  // namespace

std::string leave_out_by_driver(const SysRoot& sysroot, Topology& topology,
                                std::chrono::milliseconds deadline) {
  if (topology.gpus.empty()) return {};
  std::vector<std::string> paths;
  for (const Gpu& gpu : topology.gpus) paths.push_back(pci_file(gpu.pci_address, "uevent"));
  const Answer answer =
      ask(sysroot, paths, deadline, "/sys/bus/pci", "which drivers the GPUs have is not known");
  if (!answer.missing.empty()) return answer.missing;
  const auto why = [&](const Gpu& gpu) {
    return why_no_gpu_with(word_in("\n" + answer.text(pci_file(gpu.pci_address, "uevent")), "\nDRIVER="));
  };
  const auto first = std::stable_partition(topology.gpus.begin(), topology.gpus.end(),
                                           [&](const Gpu& gpu) { return why(gpu).empty(); });
  for (auto gpu = first; gpu != topology.gpus.end(); ++gpu)
    topology.left_out.push_back({gpu->pci_address, gpu->name, why(*gpu)});
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
  const auto information_of = [](const std::string& address) {
    return format_text("{}/{}/information", kNvidiaFolder, address);
  };
  if (gpus.empty()) return {};
  const std::vector<std::string> shown = sysroot.list(kNvidiaFolder);
  if (shown.empty()) return {};
  std::vector<std::string> paths;
  std::ranges::transform(shown, std::back_inserter(paths), information_of);
  const Answer answer =
      ask(sysroot, paths, deadline, "the GPU driver", "the UUIDs and device numbers of the GPUs are unknown");
  if (!answer.missing.empty()) return answer.missing;
  for (Gpu& gpu : gpus) {
    gpu.usable = std::ranges::find(shown, gpu.pci_address) != shown.end();
    gpu.why_unusable = gpu.usable ? "" : kHiddenByDriver;
    const std::string information = answer.text(information_of(gpu.pci_address));
    gpu.minor = parse_minor(word_in(information, "Device Minor:"));
    gpu.uuid = word_in(information, "GPU UUID:");
    // Before the GPU's first use the driver writes question marks.
    if (gpu.uuid.find('?') != std::string::npos) gpu.uuid.clear();
    if (const std::string model = line_in(information, "Model:"); !model.empty()) gpu.name = model;
  }
  return {};
}

std::string read_amd_driver(const SysRoot& sysroot, std::vector<Gpu>& gpus,
                            std::chrono::milliseconds deadline) {
  if (gpus.empty() || sysroot.list(kAmdNodes).empty()) return {};
  std::set<int> nodes;
  for (const std::string& name : sysroot.list(kAmdNodes)) {
    if (const auto number = parse_number<int>(name)) nodes.insert(*number);
  }
  std::vector<std::string> paths;
  std::ranges::transform(nodes, std::back_inserter(paths), amd_node);
  for (const Gpu& gpu : gpus) paths.push_back(pci_file(gpu.pci_address, "unique_id"));
  const Answer answer =
      ask(sysroot, paths, deadline, "AMD's GPU driver", "the UUIDs and the order of AMD's GPUs are unknown");
  std::map<std::string, int> parts;  // nodes by PCI address
  int number = -1;
  for (const int node : nodes) {
    auto properties = properties_in(answer.text(amd_node(node)));
    if (properties["simd_count"] == 0) continue;  // a CPU
    ++number;
    const std::string address = pci_address(properties["domain"], properties["location_id"]);
    std::uint64_t id = properties["unique_id"];  // 0: unknown
    if (id == 0)
      id = parse_number<std::uint64_t>(answer.text(pci_file(address, "unique_id")), 16).value_or(0);
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
