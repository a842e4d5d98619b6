#include "tuner/gpu_driver.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>

namespace zf {
namespace {

constexpr const char* kFolder = "/proc/driver/nvidia/gpus";

/// "GPU UUID: \t GPU-8932f937-d72c-4106-c12f-20bd9faed9f6". Before its first use the driver writes question
/// marks: not known.
std::string uuid_in(const std::string& information) {
  constexpr std::string_view kLabel = "GPU UUID:";
  const auto label = information.find(kLabel);
  if (label == std::string::npos) return {};
  const auto begin = information.find_first_not_of(" \t", label + kLabel.size());
  if (begin == std::string::npos) return {};
  const std::string uuid = information.substr(begin, information.find_first_of(" \t\n", begin) - begin);
  return uuid.find('?') == std::string::npos ? uuid : std::string();
}

}  // namespace

void read_gpu_driver(const SysRoot& sysroot, std::vector<Gpu>& gpus) {
  const auto shown = sysroot.list(kFolder);
  if (shown.empty()) return;
  for (Gpu& gpu : gpus) {
    gpu.usable = std::find(shown.begin(), shown.end(), gpu.pci_address) != shown.end();
    gpu.uuid = uuid_in(sysroot.read(fmt::format("{}/{}/information", kFolder, gpu.pci_address)).value_or(""));
  }
}

}  // namespace zf
