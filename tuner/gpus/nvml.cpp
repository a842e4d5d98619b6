// Asks NVML, if it is installed, which GPU a UUID belongs to.
#include "gpus/live_gpus.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <sstream>

#include "base/format.hpp"
#include "children/child_output.hpp"
#include "gpus/gpu_lists.hpp"

namespace zf {
namespace {

// The part of NVIDIA's published ABI that is used here; nvml.h of every CUDA toolkit declares it.
using Device = struct nvmlDevice_st*;
constexpr int kSuccess = 0;

struct PciInfo {
  char bus_id_legacy[16];
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int pci_device_id;
  unsigned int pci_subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68);

/// The loaded library. It is never closed: it lives as long as this child process.
class Nvml {
 public:
  explicit Nvml(const std::string& library) : handle_(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) return;
    const auto init = function<int (*)()>("nvmlInit_v2");
    by_uuid_ = function<int (*)(const char*, Device*)>("nvmlDeviceGetHandleByUUID");
    parent_ = function<int (*)(Device, Device*)>("nvmlDeviceGetDeviceHandleFromMigDeviceHandle");
    pci_ = function<int (*)(Device, PciInfo*)>("nvmlDeviceGetPciInfo_v3");
    answers_ = init != nullptr && by_uuid_ != nullptr && pci_ != nullptr && init() == kSuccess;
  }

  /// Returns "0000:3b:00.0"; empty if NVML does not know the UUID.
  std::string address_of(const std::string& uuid) const {
    Device device = nullptr;
    if (!answers_ || by_uuid_(uuid.c_str(), &device) != kSuccess) return {};
    if (Device gpu = nullptr; uuid.starts_with("MIG-") && parent_ != nullptr) {
      if (parent_(device, &gpu) != kSuccess) return {};
      device = gpu;
    }
    PciInfo info{};
    if (pci_(device, &info) != kSuccess) return {};
    return format_text("{:04x}:{:02x}:{:02x}.0", info.domain, info.bus, info.device);
  }

 private:
  template <typename Function>
  Function function(const char* name) const {
    return reinterpret_cast<Function>(::dlsym(handle_, name));
  }

  void* handle_;
  int (*by_uuid_)(const char*, Device*) = nullptr;
  int (*parent_)(Device, Device*) = nullptr;  ///< null before driver 450, which has no MIG
  int (*pci_)(Device, PciInfo*) = nullptr;
  bool answers_ = false;
};

}  // namespace

std::vector<std::string> unresolved_uuids(const Environment& environment, const std::vector<Gpu>& gpus) {
  std::vector<std::string> uuids;
  for (const auto& list : {visible_devices(environment), container_gpus(environment)}) {
    if (!list) continue;
    for (const std::string& id : list->ids) {
      const bool names_its_gpu = id.starts_with("MIG-GPU-");
      if (names_its_gpu || (!id.starts_with("MIG-") && !id.starts_with("GPU-"))) continue;
      const auto is_it = [&](const Gpu& gpu) { return gpu.uuid.starts_with(id); };
      if (std::none_of(gpus.begin(), gpus.end(), is_it)) uuids.push_back(id);
    }
  }
  return uuids;
}

void add_nvml_aliases(const std::vector<std::string>& uuids, std::vector<Gpu>& gpus,
                      std::chrono::milliseconds deadline, const std::string& library) {
  if (uuids.empty() || gpus.empty()) return;
  const auto ask = [&] {
    const Nvml nvml(library);
    std::string lines;
    for (const std::string& uuid : uuids) lines += format_text("{}\n", nvml.address_of(uuid));
    return lines;
  };
  std::istringstream answer(output_of_child(ask, deadline).text);
  for (const std::string& uuid : uuids) {
    std::string address;
    if (!std::getline(answer, address)) return;
    if (Gpu* const gpu = gpu_at(gpus, address)) gpu->aliases.push_back(uuid);
  }
}

}  // namespace zf
