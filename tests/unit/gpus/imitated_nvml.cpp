// Answers as NVIDIA's management library does on a node with a whole GPU at 3b:00.0 and one at 0001:c1:00.0
// that is divided into MIG instances. ZF_NVML_FAULT (no_driver, hang, crash) makes it fail as the real one
// can. It cannot show that the structures here are NVIDIA's, because both sides of the test define them
// alike.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

struct PciInfo {
  char bus_id_legacy[16];
  unsigned int domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};

struct Device {
  const char* uuid;
  const Device* gpu;  ///< the GPU of a MIG instance; else null
  PciInfo pci;
};

constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 2;
constexpr int kNotFound = 6;
constexpr int kDriverNotLoaded = 9;

const Device kWhole{"GPU-8932f937-d72c", nullptr, {"", 0, 0x3b, 0, 0, 0, "00000000:3B:00.0"}};
const Device kCut{"GPU-11111111-2222", nullptr, {"", 1, 0xc1, 0, 0, 0, "00000001:C1:00.0"}};
const Device kInstance{"MIG-5c89852c-d268", &kCut, {}};

}  // namespace

extern "C" {

int nvmlInit_v2() {
  const char* fault = std::getenv("ZF_NVML_FAULT");
  const std::string_view name = fault == nullptr ? "" : fault;
  if (name == "hang") ::sleep(60);
  if (name == "crash") std::abort();
  return name == "no_driver" ? kDriverNotLoaded : kSuccess;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, const Device** found) {
  for (const Device* device : {&kWhole, &kCut, &kInstance}) {
    if (std::strcmp(uuid, device->uuid) != 0) continue;
    *found = device;
    return kSuccess;
  }
  return kNotFound;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(const Device* instance, const Device** gpu) {
  if (instance->gpu == nullptr) return kInvalidArgument;
  *gpu = instance->gpu;
  return kSuccess;
}

int nvmlDeviceGetPciInfo_v3(const Device* device, PciInfo* pci) {
  if (device->gpu != nullptr) return kInvalidArgument;
  *pci = device->pci;
  return kSuccess;
}

}  // extern "C"
