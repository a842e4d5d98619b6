#include "machine/core_speeds.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/format.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

constexpr const char* kFastToday = "fast today";

struct Figure {
  std::optional<double> CoreSpeed::*value;
  const char* file;  ///< below /sys/devices/system/cpu/cpuN
  const char* name;
  bool is_khz;
};

constexpr std::array kFigures{
    Figure{&CoreSpeed::base_khz, "cpufreq/base_frequency", "base_frequency", true},
    Figure{&CoreSpeed::priority, "acpi_cppc/highest_perf", "highest_perf", false},
    Figure{&CoreSpeed::limit_khz, "cpufreq/scaling_max_freq", "scaling_max_freq", true},
};

std::string print_figure(const Figure& figure, double value) {
  return figure.is_khz ? format_text("{:.2f} GHz", value / 1e6) : format_text("{:.0f}", value);
}

/// The cores of one kind, by their positions in the topology.
using Cores = std::vector<std::size_t>;

/// Returns the figure of each core; nothing if a core has none.
std::vector<double> values_of(const Figure& figure, const Cores& cores,
                              const std::vector<CoreSpeed>& speeds) {
  std::vector<double> values;
  for (const std::size_t core : cores) {
    if (const auto value = speeds[core].*figure.value) values.push_back(*value);
  }
  return values.size() == cores.size() ? values : std::vector<double>();
}

/// Returns how fast each core is, from 0 to 1: the least of its figures, each as a part of the best of its
/// kind.
std::vector<double> relative_speeds(const Cores& cores, const std::vector<CoreSpeed>& speeds) {
  std::vector<double> result(cores.size(), 1.0);
  for (const Figure& figure : kFigures) {
    const std::vector<double> values = values_of(figure, cores, speeds);
    const double best = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
    if (best <= 0) continue;
    for (std::size_t i = 0; i < values.size(); ++i) result[i] = std::min(result[i], values[i] / best);
  }
  return result;
}

/// Returns the figures that tell the slow cores from the fast ones: "base_frequency 1.90 GHz, of fast cores
/// 2.60 GHz".
std::string reason_of(const Cores& slow, const Cores& fast, const std::vector<CoreSpeed>& speeds) {
  std::string text;
  for (const Figure& figure : kFigures) {
    const std::vector<double> low = values_of(figure, slow, speeds);
    const std::vector<double> high = values_of(figure, fast, speeds);
    if (low.empty() || high.empty()) continue;
    const double least = *std::min_element(low.begin(), low.end());
    const double best = *std::max_element(high.begin(), high.end());
    if (least >= best || are_alike(least, best)) continue;
    text += format_text("{}{} {}, of fast cores {}", text.empty() ? "" : "; ", figure.name,
                        print_figure(figure, least), print_figure(figure, best));
  }
  return text;
}

/// Returns the cores that are more than 10 % slower than the fastest of them, and the others.
std::pair<Cores, Cores> slow_and_fast(const Cores& cores, const std::vector<CoreSpeed>& speeds) {
  const std::vector<double> relative = relative_speeds(cores, speeds);
  const double best = relative.empty() ? 0 : *std::max_element(relative.begin(), relative.end());
  std::pair<Cores, Cores> parts;
  for (std::size_t i = 0; i < cores.size(); ++i)
    (are_alike(relative[i], best) ? parts.second : parts.first).push_back(cores[i]);
  return parts;
}

}  // namespace

std::vector<CoreSpeed> read_core_speeds(const SysRoot& sysroot, const Topology& topology) {
  std::vector<CoreSpeed> speeds(topology.cores.size());
  for (const Figure& figure : kFigures) {
    for (std::size_t core = 0; core < speeds.size(); ++core) {
      const auto text = sysroot.read(format_text("/sys/devices/system/cpu/cpu{}/{}",
                                                 topology.cores[core].cpus.first().os_index, figure.file));
      if (!text && core == 0) break;
      const auto value = text ? parse_number<std::uint64_t>(*text) : std::nullopt;
      if (value && *value > 0) speeds[core].*figure.value = static_cast<double>(*value);
    }
  }
  return speeds;
}

void divide_kinds_by_speed(Topology& topology, const std::vector<CoreSpeed>& speeds) {
  std::vector<CpuKind> makes = topology.cpu_kinds;
  if (makes.empty()) makes.resize(1);  // all cores are alike
  std::vector<CpuKind> kinds;
  std::vector<int> kind_of(topology.cores.size());
  const auto add = [&](CpuKind kind, const Cores& cores, std::string today) {
    kind.cpus = {};
    kind.today = std::move(today);
    kind.divides_make = kind.today == kFastToday;
    if (kind.efficiency_rank >= 0) kind.efficiency_rank = static_cast<int>(kinds.size());
    for (const std::size_t core : cores) {
      kind.cpus |= topology.cores[core].cpus;
      kind_of[core] = static_cast<int>(kinds.size());
    }
    kinds.push_back(std::move(kind));
  };
  for (std::size_t make = 0; make < makes.size(); ++make) {
    Cores cores;
    for (std::size_t core = 0; core < topology.cores.size(); ++core) {
      if (topology.cores[core].kind == static_cast<int>(make)) cores.push_back(core);
    }
    const auto [slow, fast] = slow_and_fast(cores, speeds);
    if (!slow.empty()) add(makes[make], slow, "slow today: " + reason_of(slow, fast, speeds));
    add(makes[make], fast, slow.empty() ? "" : kFastToday);
  }
  if (kinds.size() == makes.size()) return;
  topology.cpu_kinds = std::move(kinds);
  for (std::size_t core = 0; core < kind_of.size(); ++core) topology.cores[core].kind = kind_of[core];
}

bool has_fast_cores_of_today(const Topology& topology) {
  return std::any_of(topology.cpu_kinds.begin(), topology.cpu_kinds.end(),
                     [](const CpuKind& kind) { return !kind.today.empty(); });
}

}  // namespace zf
