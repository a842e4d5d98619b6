#include "gpus/gpus.hpp"

#include <map>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/format.hpp"
#include "children/child_output.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

constexpr const char* kFolder = "/proc/driver/nvidia/gpus";
constexpr const char* kUnknown = "the UUIDs and device numbers of the GPUs are unknown";

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
std::string value_in(const std::string& information, std::string_view label) {
  const std::string line = line_in(information, label);
  return line.substr(0, line.find_first_of(" \t"));
}

/// Returns "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"; empty if it is unknown: before the GPU's first use the
/// driver writes question marks.
std::string uuid_in(const std::string& information) {
  const std::string uuid = value_in(information, "GPU UUID:");
  return uuid.find('?') == std::string::npos ? uuid : std::string();
}

std::optional<int> parse_minor(const std::string& text) {
  const auto minor = parse_number<int>(text);
  return minor && *minor >= 0 ? minor : std::nullopt;
}

/// Runs in the child. Returns "ADDRESS MINOR UUID MODEL" for each GPU of the folder, with "-" for what is
/// unknown; the model may have several words or none.
std::string driver_lines(const SysRoot& sysroot) {
  std::string lines;
  for (const std::string& address : sysroot.list(kFolder)) {
    const std::string information =
        sysroot.read(format_text("{}/{}/information", kFolder, address)).value_or("");
    const auto minor = parse_minor(value_in(information, "Device Minor:"));
    const std::string uuid = uuid_in(information);
    lines += format_text("{} {} {} {}\n", address, minor ? std::to_string(*minor) : "-",
                         uuid.empty() ? "-" : uuid, line_in(information, "Model:"));
  }
  return lines;
}

struct DriverEntry {
  std::optional<int> minor;
  std::string uuid;
  std::string model;
};

/// Reads driver_lines() back, by PCI address.
std::map<std::string, DriverEntry> driver_entries(const std::string& lines) {
  std::map<std::string, DriverEntry> entries;
  std::istringstream all(lines);
  for (std::string line; std::getline(all, line);) {
    std::istringstream words(line);
    std::string address, minor, uuid, model;
    words >> address >> minor >> uuid;
    std::getline(words >> std::ws, model);
    entries[address] = {parse_minor(minor), uuid == "-" ? "" : uuid, model};
  }
  return entries;
}

}  // namespace

std::string read_gpu_driver(const SysRoot& sysroot, std::vector<Gpu>& gpus,
                            std::chrono::milliseconds deadline) {
  if (gpus.empty()) return {};
  const auto output = output_of_child([&] { return driver_lines(sysroot); }, deadline);
  if (output.end == ChildOutput::End::late) {
    return format_text("the GPU driver did not answer within {} ms (it may hang): {}", deadline.count(),
                       kUnknown);
  }
  if (output.end == ChildOutput::End::died) return format_text("reading the GPU driver failed: {}", kUnknown);
  const auto entries = driver_entries(output.text);
  if (entries.empty()) return {};
  for (Gpu& gpu : gpus) {
    const auto found = entries.find(gpu.pci_address);
    gpu.usable = found != entries.end();
    gpu.why_unusable = gpu.usable ? "" : kHiddenByDriver;
    gpu.minor = gpu.usable ? found->second.minor : std::nullopt;
    gpu.uuid = gpu.usable ? found->second.uuid : std::string();
    if (gpu.usable && !found->second.model.empty()) gpu.name = found->second.model;
  }
  return {};
}

}  // namespace zf
