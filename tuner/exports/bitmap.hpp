// CPU sets as hexadecimal digits. Pure.
#pragma once

#include <string>

#include "base/id_set.hpp"

namespace zf {

/// The set as one number, "0x" and no leading zeros: bit n is the CPU with OS index n.
std::string mask_of(const CpuSet& cpus);

/// hwloc's notation: the same bits in words of 32, highest first, each "0x" and eight digits, "," between.
std::string words_of(const CpuSet& cpus);

}  // namespace zf
