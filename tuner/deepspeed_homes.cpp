#include "tuner/deepspeed_homes.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "tuner/binding.hpp"
#include "tuner/exports/deepspeed.hpp"

namespace zf {
namespace {

/// What DeepSpeed keeps of the allowed CPUs: see why_not_deepspeed().
CpuSet usable_cpus(const Topology& topology, const CpuSet& allowed, int ranks) {
  if (ranks > 1) return allowed;
  CpuSet low;
  for (const Pu pu : allowed) {
    if (pu.os_index < static_cast<int>(topology.cores.size())) low.insert(pu);
  }
  return low;
}

/// By their first PU, each with no PU above the next one's first. Their L3 and kind are forgotten.
std::vector<HomeCore> ascending_cores(const Topology& topology, const CpuSet& cpus, int ranks) {
  std::vector<HomeCore> cores;
  for (const Core& core : topology.cores) {
    const CpuSet own = core.cpus & cpus;
    if (!own.empty()) cores.push_back({own, core.node, -1, 0});
  }
  std::sort(cores.begin(), cores.end(),
            [](const HomeCore& a, const HomeCore& b) { return a.cpus.first() < b.cpus.first(); });
  const bool interleaved =
      std::adjacent_find(cores.begin(), cores.end(), [](const HomeCore& a, const HomeCore& b) {
        return a.cpus.last() > b.cpus.first();
      }) != cores.end();
  const bool unequal =
      std::adjacent_find(cores.begin(), cores.end(), [](const HomeCore& a, const HomeCore& b) {
        return a.cpus.size() != b.cpus.size();
      }) != cores.end();
  if (interleaved || (unequal && ranks > 1)) {
    for (HomeCore& core : cores) core.cpus = {core.cpus.first()};
  }
  return cores;
}

bool in_one_node(const HomeCore* first, std::size_t count) {
  return std::all_of(first, first + count, [&](const HomeCore& core) { return core.node == first->node; });
}

}  // namespace

std::vector<Home> deepspeed_homes(const Topology& topology, const Allowed& allowed, int ranks) {
  assert(ranks > 0);
  const auto cores = ascending_cores(topology, usable_cpus(topology, allowed.cpus, ranks), ranks);
  const auto count = static_cast<std::size_t>(ranks);
  if (cores.size() < count) {
    throw Error(
        Exit::infeasible,
        fmt::format("{} ranks need as many cores, and DeepSpeed can be told of {} of CPUs {}{}", ranks,
                    cores.size(), print(allowed.cpus),
                    ranks == 1 ? fmt::format(" (a single rank's numbers end below {}, the number of cores)",
                                             topology.cores.size())
                               : ""),
        "leave --for deepspeed out and start with zf-tune exec, or allow other CPUs");
  }
  const std::size_t each = cores.size() / count;
  std::size_t spare = cores.size() - each * count;
  std::vector<Home> homes;
  const HomeCore* next = cores.data();
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t skip = 0; skip <= spare; ++skip) {
      if (!in_one_node(next + skip, each)) continue;
      next += skip;
      spare -= skip;
      break;
    }
    Home home;
    home.cores.assign(next, next + each);
    home.shared = each < 2;
    home.mems = mems_of(home, topology, allowed.mems);
    homes.push_back(std::move(home));
    next += each;
  }
  return homes;
}

std::string deepspeed_objection(const Split& split, const Topology& topology) {
  std::vector<RankBinding> bindings;
  for (const RankSplit& rank : split.ranks) {
    if (rank.unbound) return "nobody is bound";
    bindings.push_back(binding_of_split(static_cast<int>(bindings.size()), rank));
  }
  return why_not_deepspeed(bindings, static_cast<int>(topology.cores.size())).value_or("");
}

std::string restriction_in_words(const std::vector<Home>& homes, const Allowed& allowed) {
  CpuSet used;
  for (const Home& home : homes) used |= home.cpus();
  const CpuSet unused = allowed.cpus - used;
  const auto torn = std::count_if(homes.begin(), homes.end(), [](const Home& home) {
    return !in_one_node(home.cores.data(), home.cores.size());
  });
  std::string words = unused.empty() ? "every allowed CPU is in a home"
                                     : fmt::format("CPUs {} are in no home", print(unused));
  if (torn > 0) words += fmt::format(", {} of {} ranks on several NUMA nodes", torn, homes.size());
  return words;
}

}  // namespace zf
