#include "machine/gpu_driver.hpp"

#include <fmt/core.h>

#include <charconv>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "children/child_output.hpp"

namespace zf {
namespace {

constexpr const char* kFolder = "/proc/driver/nvidia/gpus";

/// What stands behind "GPU UUID: \t " or the like; empty: no such line.
std::string value_in(const std::string& information, std::string_view label) {
  const auto found = information.find(label);
  if (found == std::string::npos) return {};
  const auto begin = information.find_first_not_of(" \t", found + label.size());
  if (begin == std::string::npos) return {};
  return information.substr(begin, information.find_first_of(" \t\n", begin) - begin);
}

/// "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6". Before its first use the driver writes question marks: not
/// known.
std::string uuid_in(const std::string& information) {
  const std::string uuid = value_in(information, "GPU UUID:");
  return uuid.find('?') == std::string::npos ? uuid : std::string();
}

std::optional<int> number_of(const std::string& text) {
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && last == end && number >= 0 ? std::optional(number) : std::nullopt;
}

std::optional<int> minor_in(const std::string& information) {
  return number_of(value_in(information, "Device Minor:"));
}

/// In the child: "ADDRESS MINOR UUID" for each GPU of the folder, "-" for what is not known.
std::string driver_lines(const SysRoot& sysroot) {
  std::string lines;
  for (const std::string& address : sysroot.list(kFolder)) {
    const std::string information =
        sysroot.read(fmt::format("{}/{}/information", kFolder, address)).value_or("");
    const auto minor = minor_in(information);
    const std::string uuid = uuid_in(information);
    lines +=
        fmt::format("{} {} {}\n", address, minor ? std::to_string(*minor) : "-", uuid.empty() ? "-" : uuid);
  }
  return lines;
}

struct Driven {
  std::optional<int> minor;
  std::string uuid;
};

std::map<std::string, Driven> driven_gpus(const std::string& lines) {
  std::map<std::string, Driven> gpus;
  std::istringstream words(lines);
  for (std::string address, minor, uuid; words >> address >> minor >> uuid;) {
    gpus[address] = {number_of(minor), uuid == "-" ? "" : uuid};
  }
  return gpus;
}

}  // namespace

std::string read_gpu_driver(const SysRoot& sysroot, std::vector<Gpu>& gpus,
                            std::chrono::milliseconds deadline) {
  if (gpus.empty()) return {};
  const auto said = output_of_child([&] { return driver_lines(sysroot); }, deadline);
  if (said.end == ChildOutput::End::late) {
    return fmt::format(
        "the GPU driver took over {} ms (does it hang?): no UUIDs and numbers of GPUs are known",
        deadline.count());
  }
  if (said.end == ChildOutput::End::died)
    return "reading the GPU driver failed: no UUIDs and numbers of GPUs are known";
  const auto shown = driven_gpus(said.text);
  if (shown.empty()) return {};
  for (Gpu& gpu : gpus) {
    const auto found = shown.find(gpu.pci_address);
    gpu.usable = found != shown.end();
    gpu.minor = gpu.usable ? found->second.minor : std::nullopt;
    gpu.uuid = gpu.usable ? found->second.uuid : std::string();
  }
  return {};
}

}  // namespace zf
