#include "homes/shared_homes.hpp"

#include <algorithm>
#include <cmath>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "launchers/core_shortage.hpp"

namespace zf {
namespace {

/// Returns the allowed CPUs of all cores for which `is_there` is true.
template <class IsThere>
CpuSet allowed_cpus_of(const Topology& topology, const CpuSet& allowed, IsThere is_there) {
  CpuSet cpus;
  for (const Core& core : topology.cores) {
    if (is_there(core)) cpus |= core.cpus & allowed;
  }
  return cpus;
}

/// Returns the allowed CPUs of the preferred node, else of the preferred package, else all.
CpuSet cpus_of_place(const Topology& topology, const CpuSet& allowed, const Preference& preference) {
  if (preference.near) {
    CpuSet cpus =
        allowed_cpus_of(topology, allowed, [&](const Core& core) { return core.node == preference.near; });
    if (!cpus.empty()) return cpus;
  }
  if (preference.package) {
    CpuSet cpus = allowed_cpus_of(topology, allowed,
                                  [&](const Core& core) { return core.package == *preference.package; });
    if (!cpus.empty()) return cpus;
  }
  return allowed;
}

std::size_t count_cores(const Topology& topology, const CpuSet& cpus) {
  return static_cast<std::size_t>(
      std::count_if(topology.cores.begin(), topology.cores.end(),
                    [&](const Core& core) { return core.cpus.intersects(cpus); }));
}

std::string quota_in_words(const Allowed& allowed) {
  return format_text("the CPU quota of {:.4g} ({})", allowed.cpu_quota.value_or(0), allowed.cpu_quota_path);
}

}  // namespace

std::vector<Home> shared_homes(const Topology& topology, const Allowed& allowed,
                               const std::vector<Preference>& preferences) {
  const std::size_t ranks = preferences.size();
  const std::size_t cores = count_cores(topology, allowed.cpus);
  if (cores < ranks) throw too_few_cores(ranks, cores, allowed);
  std::vector<Home> homes;
  for (const Preference& preference : preferences) {
    Allowed own = allowed;
    own.cpus = cpus_of_place(topology, allowed.cpus, preference);
    Home& home = homes.emplace_back(homes_of(topology, own, {Preference()}).front());
    home.shared_cpus = home.cpus();
    home.at_quota = true;
  }
  const double paid = std::floor(allowed.cpu_quota.value_or(1) / static_cast<double>(ranks));
  std::vector<std::size_t> threads;
  for (const Home& home : homes) {
    const auto beside =
        static_cast<std::size_t>(std::count_if(homes.begin(), homes.end(), [&](const Home& other) {
          return other.shared_cpus.intersects(home.shared_cpus);
        }));
    const auto most = static_cast<double>(std::max<std::size_t>(1, home.cores.size() / beside));
    threads.push_back(static_cast<std::size_t>(std::clamp(paid, 1.0, most)));
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    homes[rank].cores.resize(threads[rank]);
    homes[rank].shared = threads[rank] < 2;
  }
  return homes;
}

std::string shared_homes_note(const std::vector<Home>& homes, const Allowed& allowed) {
  const auto [least, most] = std::minmax_element(
      homes.begin(), homes.end(),
      [](const Home& one, const Home& other) { return one.cores.size() < other.cores.size(); });
  const std::string threads =
      least->cores.size() == most->cores.size()
          ? print_count(most->cores.size(), "thread")
          : format_text("{} to {}", least->cores.size(), print_count(most->cores.size(), "thread"));
  if (allowed.cpu_quota.value_or(1) < static_cast<double>(homes.size())) {
    return format_text(
        "{} is less than one CPU per rank: each side of a rank has one thread, and the ranks will be stopped "
        "for a part of each period",
        quota_in_words(allowed));
  }
  const double paid = std::floor(allowed.cpu_quota.value_or(1) / static_cast<double>(homes.size()));
  if (static_cast<double>(most->cores.size()) < paid) {
    return format_text("{} pays for more threads than the ranks have cores: {} per rank",
                       quota_in_words(allowed), threads);
  }
  return format_text("{} pays for {} per rank", quota_in_words(allowed), threads);
}

void refuse_shared_cpus_for_deepspeed(const Allowed& allowed) {
  throw Error(
      Exit::infeasible,
      format_text(
          "--for deepspeed: neighbours share these CPUs, because {} pays for fewer than the {} allowed, and "
          "DeepSpeed divides the CPUs of a rank",
          quota_in_words(allowed), allowed.cpus.size()),
      "leave out --for deepspeed, or name this job's own CPUs with --allowed");
}

}  // namespace zf
