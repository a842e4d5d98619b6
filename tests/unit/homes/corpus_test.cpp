// Checks from homes to the plan what must hold for any machine, any allowed set, any number of ranks and any
// GPUs.
#include <gtest/gtest.h>

#include "all_searches.hpp"
#include "corpus.hpp"
#include "gpus/moved_gpus.hpp"
#include "os/standard_streams.hpp"
#include "paths.hpp"
#include "plan/plan_check.hpp"
#include "plan/plan_json.hpp"
#include "planning/assemble.hpp"
#include "planning/retarget.hpp"

namespace zf {
namespace {

constexpr unsigned kCasesPerFile = 40 / ZF_FEWER;
constexpr unsigned kCasesPerSynthetic = 4;

void expect_whole_cores(const Topology& topology, const Allowed& allowed, const Home& home) {
  for (const HomeCore& part : home.cores) {
    const auto whole = std::find_if(topology.cores.begin(), topology.cores.end(),
                                    [&](const Core& core) { return core.cpus.intersects(part.cpus); });
    EXPECT_EQ(part.cpus, whole->cpus & allowed.cpus) << "whole cores";
    for (const NumaNode& node : topology.nodes) {
      EXPECT_FALSE(node.id == part.node && node.is_cpuless());
    }
  }
}

void expect_partition(const CorpusCase& c, const std::vector<Home>& homes) {
  const Allowed& allowed = c.machine.allowed;
  ASSERT_EQ(homes.size(), c.gpus.gpus.size());
  CpuSet used;
  std::size_t least = homes[0].cores.size();
  std::size_t most = least;
  for (const Home& home : homes) {
    EXPECT_FALSE(used.intersects(home.cpus())) << "disjoint";
    used |= home.cpus();
    least = std::min(least, home.cores.size());
    most = std::max(most, home.cores.size());
    EXPECT_FALSE(home.mems.empty());
    EXPECT_TRUE(allowed.mems.contains(home.mems));
    expect_whole_cores(c.machine.topology, allowed, home);
  }
  EXPECT_EQ(used, allowed.cpus) << "inside allowed, and nothing idle";
  EXPECT_GE(least, 1U);
  EXPECT_LE(most - least, 2U) << "balanced";
}

/// Checks that each rank has its fair share of the CPUs near its GPU: of what the ranks with GPUs near these
/// CPUs can divide. Skips cases in which a GPU has no allowed CPU near it, because that rank
/// competes for other CPUs. Returns how many ranks were checked.
int expect_near_gpus(const CorpusCase& c, const std::vector<Home>& homes) {
  std::size_t total = 0;
  for (const Home& home : homes) total += home.cores.size();
  for (const auto& gpu : c.gpus.gpus) {
    if (gpu && !gpu->local_cpus.intersects(c.machine.allowed.cpus)) return 0;
  }
  int ranks = 0;
  for (std::size_t rank = 0; rank < homes.size(); ++rank) {
    if (!c.gpus.gpus[rank]) continue;
    const CpuSet& near = c.gpus.gpus[rank]->local_cpus;
    std::size_t cores = 0;
    std::size_t own = 0;
    for (const Home& home : homes) {
      for (const HomeCore& core : home.cores) {
        if (!core.cpus.intersects(near)) continue;
        ++cores;
        own += &home == &homes[rank];
      }
    }
    const auto claimants =
        static_cast<std::size_t>(std::count_if(c.gpus.gpus.begin(), c.gpus.gpus.end(), [&](const auto& gpu) {
          return gpu && gpu->local_cpus.intersects(near);
        }));
    EXPECT_GE(own, std::min(cores / claimants, total / homes.size()))
        << "rank " << rank << " is not near its GPU";
    ++ranks;
  }
  return ranks;
}

Plan plan_of(const CorpusCase& c) {
  const RankHomes ranks = rank_homes(c.machine, c.gpus);
  const Split split = split_of(ranks.homes, {.control = Control::half});
  Choice choice;
  choice.reason = "a test";
  for (const RankSplit& rank : split.ranks) {
    choice.pool_threads = std::max(choice.pool_threads, static_cast<int>(rank.pool.size()));
  }
  return assemble({"a test", "2026-11-20T21:00:00Z", "node", "zf-tune"}, c.machine,
                  {"w", 1000, static_cast<int>(ranks.homes.size()), 1}, split, choice, {}, {}, ranks.notes);
}

void expect_sound_plan(const CorpusCase& c) {
  const Plan plan = plan_of(c);
  const auto violation = find_violation(plan);
  EXPECT_FALSE(violation) << violation->field << " " << violation->what;
  EXPECT_TRUE(differences_from_allowed(plan, c.machine.allowed).empty());
  EXPECT_EQ(print_plan(plan_of(c)), print_plan(plan)) << "same input, same plan";
  EXPECT_EQ(parse_plan(print_plan(plan), "plan"), plan);

  Machine whole = c.machine;
  whole.allowed = allowed_from(allowed_inputs_of(whole.topology));
  const Plan moved = retarget(plan, whole, moved_gpus({}, whole.topology, plan, plan.workload.ranks));
  EXPECT_FALSE(find_violation(moved)) << "moved to the whole machine";
  EXPECT_TRUE(differences_from_allowed(moved, whole.allowed).empty());
}

/// Checks that cores are idle only because of the quota, that no more cores are used than it keeps busy, and
/// that a note says so.
void expect_within_quota(CorpusCase c, const std::vector<Home>& homes, double quota) {
  c.machine.allowed.cpu_quota = quota;
  const RankHomes ranks = rank_homes(c.machine, c.gpus);
  std::size_t used = 0;
  bool cut = false;
  for (std::size_t rank = 0; rank < homes.size(); ++rank) {
    const Home& home = ranks.homes[rank];
    EXPECT_TRUE(homes[rank].cpus().contains(home.cpus()));
    EXPECT_EQ(home.shared, homes[rank].shared);
    used += home.cores.size();
    cut = cut || home.cores.size() < homes[rank].cores.size();
  }
  EXPECT_LE(static_cast<double>(used), std::max(quota, 2.0 * static_cast<double>(homes.size())));
  const bool said = std::any_of(ranks.notes.begin(), ranks.notes.end(),
                                [](const std::string& note) { return note.ends_with(" left idle"); });
  EXPECT_EQ(said, cut);
}

/// Returns how many ranks were checked to be near their GPU.
int expect_all(const Topology& topology, unsigned first_seed, unsigned cases) {
  int near = 0;
  for (unsigned seed = first_seed; seed < first_seed + cases; ++seed) {
    const CorpusCase c = corpus_case(topology, seed);
    SCOPED_TRACE(c.words);
    const RankHomes ranks = rank_homes(c.machine, c.gpus);
    expect_partition(c, ranks.homes);
    near += expect_near_gpus(c, ranks.homes);
    expect_within_quota(c, ranks.homes, 0.5 + seed % 50);
    expect_sound_plan(c);
    if (testing::Test::HasFailure()) return near;
  }
  return near;
}

void expect_all_of(const std::vector<std::string>& files) {
  int near = 0;
  for (const std::string& file : files) near += expect_all(topology_of(file), 0, kCasesPerFile);
  print_stdout("{} machines x {} cases; {} ranks near their GPU\n", files.size(), kCasesPerFile, near);
  EXPECT_GT(near, 100 / ZF_FEWER);
}

TEST(Corpus, OurMachines) { expect_all_of(machine_files(std::string(kSourceDir) + "/tests/machines")); }

TEST(Corpus, MachinesOfOthers) {
  const auto files = machine_files(foreign_machines());
  if (files.empty()) GTEST_SKIP() << why_missing("file *.xml");
  expect_all_of(files);
}

TEST(Corpus, SyntheticMachines) {
  const unsigned machines = all_searches() ? 1000 : 96 / ZF_FEWER;
  int near = 0;
  for (unsigned machine = 0; machine < machines; ++machine) {
    Dice dice(machine);
    near += expect_all(random_topology(dice), machine * kCasesPerSynthetic, kCasesPerSynthetic);
    if (HasFailure()) return;
  }
  print_stdout("{} machines x {} cases; {} ranks near their GPU\n", machines, kCasesPerSynthetic, near);
  EXPECT_GT(near, 30 / ZF_FEWER);
}

}  // namespace
}  // namespace zf
