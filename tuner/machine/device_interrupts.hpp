// Finds the CPUs that serve the interrupts of GPUs and network cards. This is a fact of one moment, and no
// part of the machine's class: it is shown, and no core changes its place for it (docs/homes.md says why).
#pragma once

#include <string>
#include <vector>

#include "machine/topology.hpp"
#include "os/sysroot.hpp"

namespace zf {

/// The interrupts of one device.
struct DeviceInterrupts {
  std::string device;  ///< "GPU 0000:3b:00.0", "network card mlx5_0"
  int count = 0;       ///< its interrupts that go to some CPU
  CpuSet cpus;         ///< the CPUs that serve them
};

/// Reads for each GPU, and for each network card (Ethernet, InfiniBand) once, which CPUs serve its
/// interrupts: the numbers from the device's msi_irqs, else from its irq, and the CPUs of each number from
/// /proc/irq/N/effective_affinity_list, else smp_affinity_list. Leaves out devices without an interrupt, and
/// devices that are no PCI devices. GPUs come first, in the order given.
std::vector<DeviceInterrupts> read_device_interrupts(const SysRoot& sysroot, const std::vector<Gpu>& gpus);

/// Returns a line for each set of CPUs: "CPUs 2-3 serve 4 interrupts of network card mlx5_0". Devices that
/// share their CPUs share a line. Pure.
std::vector<std::string> interrupts_in_words(const std::vector<DeviceInterrupts>& devices);

}  // namespace zf
