#include "gpus/spread.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/format.hpp"
#include "base/text.hpp"

namespace zf {
namespace {

/// The GPUs of one package.
struct PackageGpus {
  int package = 0;
  std::vector<Gpu> gpus = {};
  std::size_t ranks = 0;
};

/// Returns the GPUs by package, in the order of each package's first one; nothing if one is near no package
/// or several.
std::vector<PackageGpus> by_package(const Topology& topology, const std::vector<Gpu>& gpus) {
  std::vector<PackageGpus> groups;
  for (const Gpu& gpu : gpus) {
    const auto package = package_of_cpus(topology, gpu.local_cpus);
    if (!package) return {};
    auto group = std::ranges::find(groups, *package, &PackageGpus::package);
    if (group == groups.end()) group = groups.insert(groups.end(), {*package});
    group->gpus.push_back(gpu);
  }
  return groups;
}

/// Gives each package ranks in proportion to its GPUs; the largest remainders get one rank more.
void share_ranks(std::vector<PackageGpus>& groups, std::size_t ranks, std::size_t gpus) {
  std::size_t left = ranks;
  std::vector<std::pair<std::size_t, std::size_t>> remainders;  // and the group
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i].ranks = ranks * groups[i].gpus.size() / gpus;
    left -= groups[i].ranks;
    remainders.emplace_back(ranks * groups[i].gpus.size() % gpus, i);
  }
  std::ranges::stable_sort(remainders, std::greater(), [](const auto& one) { return one.first; });
  for (std::size_t i = 0; i < left; ++i) ++groups[remainders[i].second].ranks;
}

/// Returns true if the UUID has the form of AMD's: 16 digits without a dash.
bool is_amd_uuid(std::string_view uuid) {
  constexpr std::string_view kStart = "GPU-";
  return uuid.starts_with(kStart) && uuid.size() == kStart.size() + 16 &&
         uuid.find('-', kStart.size()) == std::string_view::npos;
}

}  // namespace

std::optional<int> package_of_cpus(const Topology& topology, const CpuSet& cpus) {
  std::set<int> packages;
  for (const Core& core : topology.cores) {
    if (core.cpus.intersects(cpus)) packages.insert(core.package);
  }
  return packages.size() == 1 ? std::optional(*packages.begin()) : std::nullopt;
}

std::map<int, std::size_t> gpus_by_package(const Topology& topology, const std::vector<Gpu>& gpus,
                                           std::size_t count) {
  std::map<int, std::size_t> found;
  for (std::size_t i = 0; i < count; ++i) ++found[package_of_cpus(topology, gpus[i].local_cpus).value_or(-1)];
  return found;
}

std::size_t most_in_a_package(const std::map<int, std::size_t>& by_package) {
  return std::ranges::max_element(by_package, {}, &std::pair<const int, std::size_t>::second)->second;
}

std::vector<Gpu> spread_over_packages(const Topology& topology, const std::vector<Gpu>& gpus, int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  if (count >= gpus.size()) return {};
  std::vector<PackageGpus> groups = by_package(topology, gpus);
  if (groups.size() < 2) return {};
  share_ranks(groups, count, gpus.size());
  const std::size_t most = std::ranges::max(groups, {}, &PackageGpus::ranks).ranks;
  if (most >= most_in_a_package(gpus_by_package(topology, gpus, count))) return {};
  std::vector<Gpu> spread;
  for (const PackageGpus& group : groups) {
    for (std::size_t i = 0; i < group.ranks; ++i)
      spread.push_back(group.gpus[i * group.gpus.size() / group.ranks]);
  }
  return spread;
}

RankGpu planned_gpu(const Gpu& gpu) {
  return {gpu.pci_address, gpu.node, gpu.local_cpus, gpu.minor, gpu.uuid, gpu.cuda_number};
}

std::map<std::string, std::string> variables_of_gpus(const std::vector<RankGpu>& gpus, bool uuids_count) {
  std::vector<std::string> uuids;
  std::vector<int> numbers;
  bool all_amd = true;
  for (const RankGpu& gpu : gpus) {
    if (!gpu.uuid.empty() && uuids_count) uuids.push_back(gpu.uuid);
    if (gpu.cuda_number) numbers.push_back(*gpu.cuda_number);
    all_amd = all_amd && is_amd_uuid(gpu.uuid);
  }
  const bool by_uuid = !gpus.empty() && uuids.size() == gpus.size();
  if (by_uuid && all_amd) return {{"ROCR_VISIBLE_DEVICES", join_text(uuids, ",")}};
  if (gpus.empty() || numbers.size() != gpus.size()) return {};
  if (by_uuid) return {{"CUDA_VISIBLE_DEVICES", join_text(uuids, ",")}};
  return {{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}, {"CUDA_VISIBLE_DEVICES", join_text(numbers, ",")}};
}

std::string in_words(const std::map<std::string, std::string>& variables) {
  std::string text;
  for (const auto& [name, value] : variables)
    text += format_text("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

}  // namespace zf
