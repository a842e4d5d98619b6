// What DeepSpeed 0.19.8 does. Its launcher cuts an ascending list of CPUs into equal runs, one per local rank
// (utils/numa.py). ZenFlow cuts each rank's run into training, then optimizer, by one fraction for all ranks
// (zenflow_utils.py). SuperOffload does the same with the fraction of the other side (superoffload_utils.py).
#include "homes/deepspeed_homes.hpp"

#include <algorithm>
#include <cassert>
#include <map>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "homes/split.hpp"

namespace zf {
namespace {

/// Returns the allowed CPUs that DeepSpeed keeps: see why_not_deepspeed().
CpuSet usable_cpus(const Topology& topology, const CpuSet& allowed, int ranks) {
  if (ranks > 1) return allowed;
  CpuSet low;
  for (const Pu pu : allowed) {
    if (pu.os_index < static_cast<int>(topology.cores.size())) low.insert(pu);
  }
  return low;
}

/// Returns the cores sorted by their first PU, without their L3 and kind. All PUs of a core are below the
/// first PU of the next core.
std::vector<HomeCore> ascending_cores(const Topology& topology, const CpuSet& cpus, int ranks) {
  std::vector<HomeCore> cores;
  for (const Core& core : topology.cores) {
    const CpuSet own = core.cpus & cpus;
    if (!own.empty()) cores.push_back({own, core.node, -1, 0, core.package});
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

/// Returns an objection if the rank does not train on its lowest CPUs, as DeepSpeed does.
std::optional<std::string> not_a_prefix(const RankBinding& rank) {
  if (rank.shared || rank.training.cpus.last() < rank.optimizer.cpus.first()) return std::nullopt;
  return format_text(
      "rank {} trains on {} and runs the optimizer on {}: DeepSpeed trains on the lowest CPUs of a rank",
      rank.rank, print_cpus(rank.training.cpus), print_cpus(rank.optimizer.cpus));
}

/// Returns whether these sets of CPUs lie in different L3 groups: a cut along these groups is no cut between
/// slow and fast cores, even if the groups differ in speed today.
bool are_cut_by_l3(const Topology& topology, const std::vector<CpuSet>& sets) {
  return !topology.l3_groups.empty() &&
         std::all_of(topology.l3_groups.begin(), topology.l3_groups.end(), [&](const L3Group& group) {
           return std::count_if(sets.begin(), sets.end(),
                                [&](const CpuSet& set) { return set.intersects(group.cpus); }) <= 1;
         });
}

/// Returns "3 fast and 1 slow core"; "2 slow cores" if there are no fast ones.
std::string fast_and_slow_in_words(int fast, int slow) {
  if (fast == 0) return print_count(slow, "slow core");
  if (slow == 0) return print_count(fast, "fast core");
  return format_text("{} fast and {}", fast, print_count(slow, "slow core"));
}

}  // namespace

std::optional<std::string> why_not_deepspeed(const std::vector<RankBinding>& ranks, int machine_cores,
                                             Framework framework) {
  const RankBinding& first = ranks.front();
  for (const RankBinding& rank : ranks) {
    if (rank.optimizer.threads) {
      return format_text("neighbours share {}, and DeepSpeed divides the CPUs of a rank",
                         print_cpus(rank.home.cpus));
    }
    // It would leave training an empty list, which psutil takes for "all CPUs of the machine".
    if (rank.shared && framework == Framework::superoffload) {
      return format_text("both sides of rank {} share {}: SuperOffload always divides them", rank.rank,
                         print_cpus(rank.home.cpus));
    }
    if (auto why = not_a_prefix(rank)) return why;
    if (rank.shared && rank.optimizer.cpus.size() < static_cast<std::size_t>(rank.home.threads)) {
      return format_text(
          "rank {} shares its home, and its pool runs on {} of {} cores: DeepSpeed's optimizer takes all",
          rank.rank, rank.optimizer.cpus.size(), rank.home.threads);
    }
    if (rank.training.cpus.size() != first.training.cpus.size() ||
        rank.both_sides().size() != first.both_sides().size()) {
      return format_text(
          "rank {} has {}, {} of them for training, and rank {} has {} and {}: DeepSpeed gives every "
          "rank the same numbers",
          first.rank, print_count(first.both_sides().size(), "CPU"), first.training.cpus.size(), rank.rank,
          rank.both_sides().size(), rank.training.cpus.size());
    }
    if (rank.rank == first.rank) continue;
    const RankBinding& before = ranks[static_cast<std::size_t>(rank.rank - 1)];
    if (before.both_sides().last() < rank.both_sides().first()) continue;
    return format_text(
        "the CPUs of ranks {} and {} interleave ({} and {}): DeepSpeed cuts one ascending list into runs",
        before.rank, rank.rank, print(before.both_sides()), print(rank.both_sides()));
  }
  if (ranks.size() == 1 && first.both_sides().last().os_index >= machine_cores) {
    return format_text(
        "the only rank has CPU {}: "
        "for a single rank DeepSpeed drops CPU numbers of {} and above (the number of cores)",
        first.both_sides().last().os_index, machine_cores);
  }
  return std::nullopt;
}

std::vector<Home> deepspeed_homes(const Topology& topology, const Allowed& allowed, int ranks,
                                  Framework framework) {
  assert(ranks > 0);
  const auto cores = ascending_cores(topology, usable_cpus(topology, allowed.cpus, ranks), ranks);
  const auto count = static_cast<std::size_t>(ranks);
  const std::size_t least = framework == Framework::superoffload ? 2 * count : count;
  if (cores.size() < least) {
    throw Error(
        Exit::infeasible,
        format_text("{} {} {} that DeepSpeed can be told of in {}{}, and {} {}", print_count(count, "rank"),
                    count == 1 ? "has" : "have", print_count(cores.size(), "core"), print_cpus(allowed.cpus),
                    ranks == 1 ? format_text(" (for a single rank it drops CPU numbers of {}, the number of "
                                             "cores, and above)",
                                             topology.cores.size())
                               : "",
                    count == 1 ? "needs" : "need", print_count(least, "core")),
        "leave out --for deepspeed and start the job with zf-tune exec, or allow other CPUs");
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

std::string deepspeed_objection(const Split& split, const Topology& topology, Framework framework) {
  std::vector<RankBinding> bindings;
  for (const RankSplit& rank : split.ranks) {
    if (rank.unbound) return "no rank is bound";
    bindings.push_back(binding_of_split(static_cast<int>(bindings.size()), rank));
  }
  return why_not_deepspeed(bindings, static_cast<int>(topology.cores.size()), framework).value_or("");
}

std::vector<std::string> unfair_fast_cores(const Split& split, const Topology& topology,
                                           const CpuSet& allowed) {
  const int fastest = static_cast<int>(topology.cpu_kinds.size()) - 1;
  if (fastest < 1) return {};
  const int fast_make = make_of(topology.cpu_kinds, fastest);
  const bool makes_differ = fast_make > 0;  // else some cores of one make are fast today, which matters less
  const auto fast_in = [&](const CpuSet& cpus) {
    return static_cast<int>(
        std::count_if(topology.cores.begin(), topology.cores.end(), [&](const Core& core) {
          const bool is_fast =
              makes_differ ? make_of(topology.cpu_kinds, core.kind) == fast_make : core.kind == fastest;
          return is_fast && core.cpus.intersects(cpus);
        }));
  };
  const auto cores_in = [&](const CpuSet& cpus) {
    return static_cast<int>(std::count_if(topology.cores.begin(), topology.cores.end(),
                                          [&](const Core& core) { return core.cpus.intersects(cpus); }));
  };
  std::vector<std::string> sentences;
  std::vector<int> counts;
  using FastAndSlow = std::pair<int, int>;
  std::map<FastAndSlow, std::vector<std::size_t>> badly_trained;  // ranks by the cores that they train on
  const int fair = fast_in(allowed) / static_cast<int>(split.ranks.size());
  bool is_fair = true;
  std::vector<CpuSet> homes;
  for (std::size_t rank = 0; rank < split.ranks.size(); ++rank) {
    const RankSplit& own = split.ranks[rank];
    homes.push_back(own.home);
    counts.push_back(fast_in(own.home));
    is_fair = is_fair && counts.back() >= std::min(fair, own.home_cores);
    const int fast = fast_in(own.training);
    const bool by_l3 = !makes_differ && are_cut_by_l3(topology, {own.training, own.optimizer});
    if (!own.shared && !by_l3 && fast < std::min(own.reserved_cores, counts.back()))
      badly_trained[{fast, cores_in(own.training) - fast}].push_back(rank);
  }
  if (!is_fair && (makes_differ || !are_cut_by_l3(topology, homes))) {
    sentences.push_back(format_text(
        "DeepSpeed cuts the CPUs into equal runs by their numbers, and that is unfair here: of the "
        "fast cores the ranks have {}, where each could have {}",
        join_text(counts, ", "), fair));
  }
  for (const auto& [cores, ranks] : badly_trained) {
    const bool one = ranks.size() == 1;
    sentences.push_back(format_text(
        "{} {} {} on {}{}, and {} has fast ones: DeepSpeed trains on the lowest CPUs of a rank, and slow "
        "cores have low numbers here; without --for deepspeed, training gets the fast cores of a home first",
        one ? "rank" : "ranks", join_text(ranks, ","), one ? "trains" : "train",
        fast_and_slow_in_words(cores.first, cores.second), one ? "" : " each",
        one ? "its optimizer" : "the optimizer of each"));
  }
  return sentences;
}

std::string restriction_in_words(const std::vector<Home>& homes, const Allowed& allowed) {
  CpuSet used;
  for (const Home& home : homes) used |= home.cpus();
  const CpuSet unused = allowed.cpus - used;
  const auto torn = std::count_if(homes.begin(), homes.end(), [](const Home& home) {
    return !in_one_node(home.cores.data(), home.cores.size());
  });
  std::string words =
      unused.empty() ? "every allowed CPU is in a home"
                     : format_text("{} {} in no home", print_cpus(unused), unused.size() == 1 ? "is" : "are");
  if (torn > 0)
    words += format_text(", {} of {} {} several NUMA nodes", torn, print_count(homes.size(), "rank"),
                         torn == 1 ? "spans" : "span");
  return words;
}

}  // namespace zf
