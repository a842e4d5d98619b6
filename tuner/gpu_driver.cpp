#include "tuner/gpu_driver.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

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

std::optional<int> minor_in(const std::string& information) {
  const std::string text = value_in(information, "Device Minor:");
  int minor = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, minor);
  return error == std::errc() && last == end && minor >= 0 ? std::optional(minor) : std::nullopt;
}

}  // namespace

void read_gpu_driver(const SysRoot& sysroot, std::vector<Gpu>& gpus) {
  const auto shown = sysroot.list(kFolder);
  if (shown.empty()) return;
  for (Gpu& gpu : gpus) {
    gpu.usable = std::find(shown.begin(), shown.end(), gpu.pci_address) != shown.end();
    const std::string information =
        sysroot.read(fmt::format("{}/{}/information", kFolder, gpu.pci_address)).value_or("");
    gpu.uuid = uuid_in(information);
    gpu.minor = minor_in(information);
  }
}

}  // namespace zf
