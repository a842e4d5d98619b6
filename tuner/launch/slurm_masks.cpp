#include "launch/slurm_masks.hpp"

#include <optional>
#include <string>
#include <string_view>

#include "text/units.hpp"

namespace zf {
namespace {

/// Reads a mask of any length: "0x0F".
std::optional<CpuSet> parse_mask(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  std::vector<Pu> cpus;
  for (std::size_t digit = 0; digit < text.size(); ++digit) {
    const auto bits = parse_number<unsigned>(text.substr(text.size() - 1 - digit, 1), 16);
    if (!bits) return std::nullopt;
    for (int bit = 0; bit < 4; ++bit) {
      if ((*bits >> bit & 1U) != 0) cpus.push_back(Pu{static_cast<int>(4 * digit) + bit});
    }
  }
  return cpus.empty() ? std::nullopt : std::optional(CpuSet(std::move(cpus)));
}

/// Reads one CPU number: "7", or "0x7", which Slurm accepts as well.
std::optional<CpuSet> parse_cpu(std::string_view text) {
  const bool is_hex = text.starts_with("0x");
  if (is_hex) text.remove_prefix(2);
  const auto cpu = parse_number<int>(text, is_hex ? 16 : 10);
  return cpu && *cpu >= 0 ? std::optional(CpuSet{Pu{*cpu}}) : std::nullopt;
}

}  // namespace

std::vector<CpuSet> slurm_masks(const Environment& environment) {
  const std::string type = environment.get("SLURM_CPU_BIND_TYPE").value_or("");
  const bool masks = type.starts_with("mask_cpu");
  if (!masks && !type.starts_with("map_cpu")) return {};
  const std::string list = environment.get("SLURM_CPU_BIND_LIST").value_or("");
  std::vector<CpuSet> found;
  for (std::string_view rest = list; !rest.empty();) {
    const auto comma = rest.find(',');
    const std::string_view entry = rest.substr(0, comma);
    auto cpus = masks ? parse_mask(entry) : parse_cpu(entry);
    if (!cpus) return {};
    found.push_back(*std::move(cpus));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return found;
}

std::vector<CpuSet> masks_of_tasks(const std::vector<CpuSet>& list, int tasks) {
  std::vector<CpuSet> masks;
  for (std::size_t task = 0; !list.empty() && task < static_cast<std::size_t>(tasks); ++task)
    masks.push_back(list[task % list.size()]);
  return masks;
}

bool masks_are_in_force(const std::vector<CpuSet>& masks, int ranks, int rank, const CpuSet& seen,
                        const CpuSet& of_job) {
  if (masks.size() != static_cast<std::size_t>(ranks) || rank < 0 || rank >= ranks) return false;
  return (masks[static_cast<std::size_t>(rank)] & of_job) == seen;
}

}  // namespace zf
