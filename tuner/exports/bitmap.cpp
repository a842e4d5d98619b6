#include "tuner/exports/bitmap.hpp"

#include <fmt/core.h>

#include <cstdint>
#include <vector>

namespace zf {
namespace {

/// Lowest word first; at least one.
std::vector<std::uint32_t> words(const CpuSet& cpus) {
  std::vector<std::uint32_t> result(cpus.empty() ? 1
                                                 : static_cast<std::size_t>(cpus.last().os_index) / 32 + 1);
  for (const Pu pu : cpus) result[static_cast<std::size_t>(pu.os_index) / 32] |= 1U << (pu.os_index % 32);
  return result;
}

}  // namespace

std::string mask_of(const CpuSet& cpus) {
  const auto all = words(cpus);
  std::string mask = fmt::format("0x{:x}", all.back());
  for (std::size_t i = all.size() - 1; i-- > 0;) mask += fmt::format("{:08x}", all[i]);
  return mask;
}

std::string words_of(const CpuSet& cpus) {
  const auto all = words(cpus);
  std::string text;
  for (std::size_t i = all.size(); i-- > 0;) text += fmt::format("0x{:08x}{}", all[i], i == 0 ? "" : ",");
  return text;
}

}  // namespace zf
