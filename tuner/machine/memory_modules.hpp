// Computes the nominal memory bandwidth of the machine from what its firmware says of the memory modules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "os/sysroot.hpp"

namespace zf {

/// A "Memory Device" structure of SMBIOS, as far as it is needed (DMTF DSP0134, type 17).
struct MemoryModule {
  bool populated = false;                 ///< false: an empty slot, or a chip that is no main memory
  std::uint16_t data_bits = 0;            ///< without those of ECC; 0 if unknown
  std::uint32_t megatransfers_per_s = 0;  ///< as configured, else the highest; 0 if unknown
};

/// Reads one structure, as in /sys/firmware/dmi/entries/17-N/raw. Fields that an older, shorter structure
/// lacks are unknown. Returns nothing if this is no structure of type 17, or not all of it. Pure.
std::optional<MemoryModule> parse_memory_module(std::string_view raw);

struct NominalBandwidth {
  std::optional<double> bytes_per_s;  ///< nothing if it is unknown
  int modules = 0;                    ///< that the figure counts
  std::string unknown_because;        ///< empty if the figure is known; else a clause without a full stop
};

/// Returns the sum over all memory modules of width × transfers per second. This is an upper bound: SMBIOS
/// does not say reliably which modules share a channel, so each counts as if it had a channel of its own. It
/// is as true as the firmware: some before SMBIOS 3.1 gives the clock, which is half the transfers, and a
/// virtual machine may invent its modules. The figure is unknown if anything is unknown for one module. Only
/// root can read the structures.
NominalBandwidth read_nominal_bandwidth(const SysRoot& sysroot);

}  // namespace zf
