#include "machine/core_speeds.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/format.hpp"
#include "os/machine_identity.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

constexpr const char* kFastToday = "fast today";

/// CPPC_HIGHEST_PERF_PREFCORE of the kernel: on AMD, a core of this highest_perf or more is as fast as others
/// of its make.
constexpr double kFirstRankOnAmd = 166;

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

constexpr Figure kHighest{&CoreSpeed::highest_khz, "cpufreq/cpuinfo_max_freq", "cpuinfo_max_freq", true};

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

/// The highest speed that a figure stands for; a figure above it counts as so much. Absent: there is none.
struct Caps {
  std::optional<double> priority;
  std::optional<double> limit_khz;
};

/// Returns the caps for the cores of one kind. On AMD, equal cores may differ in cpuinfo_max_freq, and one
/// without a limit counts as fast as the one with the least.
Caps caps_of(const Cores& cores, const std::vector<CoreSpeed>& speeds, SpeedRules rules) {
  if (rules == SpeedRules::plain) return {};
  const std::vector<double> highest = values_of(kHighest, cores, speeds);
  Caps caps{kFirstRankOnAmd, {}};
  if (!highest.empty()) caps.limit_khz = *std::min_element(highest.begin(), highest.end());
  return caps;
}

/// Returns the speeds that the figure stands for, by core; nothing if a core has none.
std::vector<double> speeds_by(const Figure& figure, const Cores& cores, const std::vector<CoreSpeed>& speeds,
                              const Caps& caps) {
  std::vector<double> values = values_of(figure, cores, speeds);
  std::optional<double> cap;
  if (figure.value == &CoreSpeed::priority) cap = caps.priority;
  if (figure.value == &CoreSpeed::limit_khz) cap = caps.limit_khz;
  for (double& value : values) value = std::min(value, cap.value_or(value));
  return values;
}

/// Returns how fast each core is, from 0 to 1: the least of its figures, each as a part of the best of its
/// kind.
std::vector<double> relative_speeds(const Cores& cores, const std::vector<CoreSpeed>& speeds,
                                    const Caps& caps) {
  std::vector<double> result(cores.size(), 1.0);
  for (const Figure& figure : kFigures) {
    const std::vector<double> values = speeds_by(figure, cores, speeds, caps);
    const double best = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
    if (best <= 0) continue;
    for (std::size_t i = 0; i < values.size(); ++i) result[i] = std::min(result[i], values[i] / best);
  }
  return result;
}

/// Returns the figures that tell the slow cores from the fast ones: "base_frequency 1.90 GHz, of fast cores
/// 2.60 GHz".
std::string reason_of(const Cores& slow, const Cores& fast, const std::vector<CoreSpeed>& speeds,
                      const Caps& caps) {
  const auto least = [](const std::vector<double>& values) {
    return *std::min_element(values.begin(), values.end());
  };
  const auto best = [](const std::vector<double>& values) {
    return *std::max_element(values.begin(), values.end());
  };
  std::string text;
  for (const Figure& figure : kFigures) {
    const std::vector<double> low = speeds_by(figure, slow, speeds, caps);
    const std::vector<double> high = speeds_by(figure, fast, speeds, caps);
    if (low.empty() || high.empty()) continue;
    if (least(low) >= best(high) || are_alike(least(low), best(high))) continue;
    text += format_text("{}{} {}, of fast cores {}", text.empty() ? "" : "; ", figure.name,
                        print_figure(figure, least(values_of(figure, slow, speeds))),
                        print_figure(figure, best(values_of(figure, fast, speeds))));
  }
  return text;
}

/// Returns the cores that are more than 10 % slower than the fastest of them, and the others.
std::pair<Cores, Cores> slow_and_fast(const Cores& cores, const std::vector<CoreSpeed>& speeds,
                                      const Caps& caps) {
  const std::vector<double> relative = relative_speeds(cores, speeds, caps);
  const double best = relative.empty() ? 0 : *std::max_element(relative.begin(), relative.end());
  std::pair<Cores, Cores> parts;
  for (std::size_t i = 0; i < cores.size(); ++i)
    (are_alike(relative[i], best) ? parts.second : parts.first).push_back(cores[i]);
  return parts;
}

}  // namespace

SpeedRules speed_rules_of(const SysRoot& sysroot) {
  return cpuinfo_field(sysroot, "vendor_id") == "AuthenticAMD" ? SpeedRules::amd : SpeedRules::plain;
}

std::vector<CoreSpeed> read_core_speeds(const SysRoot& sysroot, const Topology& topology) {
  std::vector<CoreSpeed> speeds(topology.cores.size());
  const auto read = [&](const Figure& figure) {
    for (std::size_t core = 0; core < speeds.size(); ++core) {
      const auto text = sysroot.read(format_text("/sys/devices/system/cpu/cpu{}/{}",
                                                 topology.cores[core].cpus.first().os_index, figure.file));
      if (!text && core == 0) break;
      const auto value = text ? parse_number<std::uint64_t>(*text) : std::nullopt;
      if (value && *value > 0) speeds[core].*figure.value = static_cast<double>(*value);
    }
  };
  for (const Figure& figure : kFigures) read(figure);
  if (speed_rules_of(sysroot) == SpeedRules::amd) read(kHighest);
  return speeds;
}

void divide_kinds_by_speed(Topology& topology, const std::vector<CoreSpeed>& speeds, SpeedRules rules) {
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
    const Caps caps = caps_of(cores, speeds, rules);
    const auto [slow, fast] = slow_and_fast(cores, speeds, caps);
    if (!slow.empty()) add(makes[make], slow, "slow today: " + reason_of(slow, fast, speeds, caps));
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
