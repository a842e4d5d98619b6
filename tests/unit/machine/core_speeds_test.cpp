#include "machine/core_speeds.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "machine/fingerprint.hpp"
#include "sysroot_machine.hpp"

namespace zf {
namespace {

using Kinds = std::vector<std::pair<std::string, std::string>>;

/// Returns CPUs and CpuKind::today of each kind.
Kinds kinds_of(const Topology& topology) {
  Kinds kinds;
  for (const CpuKind& kind : topology.cpu_kinds) kinds.emplace_back(print(kind.cpus), kind.today);
  return kinds;
}

std::vector<int> kind_by_core(const Topology& topology) {
  std::vector<int> kinds;
  for (const Core& core : topology.cores) kinds.push_back(core.kind);
  return kinds;
}

constexpr int kLow = 1'900'000;
constexpr int kHigh = 2'600'000;

/// Adds a figure for each core, in a file of its own.
void add_figures(Tree& tree, const std::string& file, const std::vector<int>& figures,
                 const std::array<int, 8>& numbers = kNumberings[0]) {
  for (std::size_t core = 0; core < figures.size(); ++core)
    tree.file(format_text("/sys/devices/system/cpu/cpu{}/{}", numbers[core], file),
              std::to_string(figures[core]));
}

TEST(CoreSpeeds, SpeedSelectGivesSomeCoresAHigherBaseClock) {
  for (const auto& numbers : kNumberings) {
    Tree tree;
    add_cores(tree, 8);
    add_figures(tree, "cpufreq/base_frequency", {kLow, kHigh, kLow, kLow, kHigh, kLow, kHigh, kLow}, numbers);
    add_figures(tree, "cpufreq/cpuinfo_max_freq", std::vector<int>(8, 3'800'000));
    add_figures(tree, "cpufreq/scaling_max_freq", std::vector<int>(8, 3'800'000));
    const Topology topology = machine_in(tree).topology;
    const CpuSet fast = numbered("1,4,6", numbers);
    EXPECT_EQ(kinds_of(topology), (Kinds{{print(numbered("0,2-3,5,7", numbers)),
                                          "slow today: base_frequency 1.90 GHz, of fast cores 2.60 GHz"},
                                         {print(fast), "fast today"}}));
    for (const Core& core : topology.cores) EXPECT_EQ(core.kind, fast.contains(core.cpus) ? 1 : 0);
    EXPECT_TRUE(has_fast_cores_of_today(topology));
  }
}

TEST(CoreSpeeds, AFigureInWhichTheSlowCoresAreFasterIsNoReason) {
  Tree tree;
  add_cores(tree, 4);
  add_figures(tree, "cpufreq/base_frequency", {kLow, kHigh, kLow, kLow});
  add_figures(tree, "cpufreq/scaling_max_freq", {3'500'000, 3'000'000, 3'500'000, 3'500'000});
  EXPECT_EQ(
      kinds_of(machine_in(tree).topology),
      (Kinds{{"0,2-3", "slow today: base_frequency 1.90 GHz, of fast cores 2.60 GHz"}, {"1", "fast today"}}));
}

TEST(CoreSpeeds, TurboPrefersTheCoresOfHighestPerf) {
  for (const auto& numbers : kNumberings) {
    Tree tree;
    add_cores(tree, 8);
    add_figures(tree, "acpi_cppc/highest_perf", {40, 40, 52, 40, 40, 51, 40, 40}, numbers);
    EXPECT_EQ(
        kinds_of(machine_in(tree).topology),
        (Kinds{{print(numbered("0-1,3-4,6-7", numbers)), "slow today: highest_perf 40, of fast cores 52"},
               {print(numbered("2,5", numbers)), "fast today"}}));
  }
}

TEST(CoreSpeeds, CoresPinnedLowAreSlow) {
  const int max = 3'500'000;
  for (const auto& numbers : kNumberings) {
    Tree tree;
    add_cores(tree, 8);
    add_figures(tree, "cpufreq/cpuinfo_max_freq", std::vector<int>(8, max));
    add_figures(tree, "cpufreq/scaling_max_freq", {max, max, max, 1'200'000, max, max, max, max}, numbers);
    EXPECT_EQ(kinds_of(machine_in(tree).topology),
              (Kinds{{print(numbered("3", numbers)),
                      "slow today: scaling_max_freq 1.20 GHz, of fast cores 3.50 GHz"},
                     {print(numbered("0-2,4-7", numbers)), "fast today"}}));
  }
}

/// Reads the machine as a rank does that fits a plan by itself.
Topology without_speeds(const Tree& tree) {
  MachineSource source;
  source.sysroot = tree.sysroot();
  source.with_speeds = false;
  return read_machine(source).topology;
}

/// Adds the highest clock of each core, without a limit.
void add_highest_clocks(Tree& tree, const std::vector<int>& khz,
                        const std::array<int, 8>& numbers = kNumberings[0]) {
  add_figures(tree, "cpufreq/cpuinfo_max_freq", khz, numbers);
  add_figures(tree, "cpufreq/scaling_max_freq", khz, numbers);
}

TEST(CoreSpeeds, PriorityCoresOfTurboAreFastTodayAndNoMakeOfTheirOwn) {
  const int low = 3'600'000;
  const int high = 4'600'000;
  for (const auto& numbers : kNumberings) {
    for (const bool has_base_clocks : {true, false}) {  // hwloc evens clocks out only if it knows these
      Tree tree;
      add_cores(tree, 8);
      add_highest_clocks(tree, {low, low, high, low, low, high, low, low}, numbers);
      if (has_base_clocks) add_figures(tree, "cpufreq/base_frequency", std::vector<int>(8, 2'400'000));
      const Topology topology = machine_in(tree).topology;
      EXPECT_EQ(kinds_of(topology), (Kinds{{print(numbered("0-1,3-4,6-7", numbers)),
                                            "slow today: scaling_max_freq 3.60 GHz, of fast cores 4.60 GHz"},
                                           {print(numbered("2,5", numbers)), "fast today"}}));
      EXPECT_TRUE(has_fast_cores_of_today(topology));
      EXPECT_EQ(kind_by_core(without_speeds(tree)), std::vector<int>(8, 0));
      EXPECT_LE(without_speeds(tree).cpu_kinds.size(), 1u);
    }
  }
}

/// Says that the cores are AMD's.
void amd(Tree& tree) { tree.file("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\n"); }

/// Adds a figure to each of cores 0 … n-1.
void add_to_cores(Tree& tree, const std::string& file, const std::vector<int>& figures) {
  for (std::size_t core = 0; core < figures.size(); ++core)
    tree.file(format_text("/sys/devices/system/cpu/cpu{}/{}", core, file), std::to_string(figures[core]));
}

/// The order in which the scheduler prefers the cores of a Ryzen 9 7950X3D.
const std::vector<int> kRanksOf7950X3d{236, 231, 226, 221, 216, 211, 206, 201,
                                       166, 171, 176, 181, 236, 191, 231, 196};

TEST(CoreSpeeds, ARankOfAmdsIsNoSpeed) {
  Tree tree;
  add_cores(tree, 16);
  amd(tree);
  add_to_cores(tree, "acpi_cppc/highest_perf", kRanksOf7950X3d);
  add_to_cores(tree, "cpufreq/cpuinfo_max_freq", std::vector<int>(16, 5'759'000));
  add_to_cores(tree, "cpufreq/scaling_max_freq", std::vector<int>(16, 5'759'000));
  const Topology topology = machine_in(tree).topology;
  EXPECT_FALSE(has_fast_cores_of_today(topology));
  EXPECT_EQ(kind_by_core(topology), std::vector<int>(16, 0));
}

TEST(CoreSpeeds, OneLimitedCoreAmongRankedOnesIsSlow) {
  Tree tree;
  add_cores(tree, 16);
  amd(tree);
  std::vector<int> limits(16, 5'759'000);
  add_to_cores(tree, "acpi_cppc/highest_perf", kRanksOf7950X3d);
  add_to_cores(tree, "cpufreq/cpuinfo_max_freq", limits);
  limits[0] = 2'800'000;
  add_to_cores(tree, "cpufreq/scaling_max_freq", limits);
  EXPECT_EQ(kinds_of(machine_in(tree).topology),
            (Kinds{{"0", "slow today: scaling_max_freq 2.80 GHz, of fast cores 5.76 GHz"},
                   {"1-15", "fast today"}}));
}

/// The clocks that the kernel computes from the ranks of 32 equal cores of a Threadripper: 5.35 to 7.3 GHz.
std::vector<int> clocks_of_threadripper() {
  std::vector<int> khz;
  for (int core = 0; core < 32; ++core) khz.push_back(5'350'000 + core * 1'950'000 / 31);
  return khz;
}

TEST(CoreSpeeds, ClocksThatAmdsKernelComputesFromRanksAreNoSpeeds) {
  std::vector<int> khz = clocks_of_threadripper();
  Tree tree;
  add_cores(tree, 32);
  amd(tree);
  add_to_cores(tree, "cpufreq/cpuinfo_max_freq", khz);
  add_to_cores(tree, "cpufreq/scaling_max_freq", khz);
  EXPECT_FALSE(has_fast_cores_of_today(machine_in(tree).topology));
  add_to_cores(tree, "cpufreq/scaling_max_freq", std::vector<int>(32, 4'000'000));  // all of them limited
  EXPECT_FALSE(has_fast_cores_of_today(machine_in(tree).topology));
  khz[7] /= 2;
  add_to_cores(tree, "cpufreq/scaling_max_freq", khz);
  EXPECT_EQ(kinds_of(machine_in(tree).topology),
            (Kinds{{"7", "slow today: scaling_max_freq 2.90 GHz, of fast cores 7.30 GHz"},
                   {"0-6,8-31", "fast today"}}));
}

TEST(CoreSpeeds, BelowTheFirstRankAmdsFigureIsASpeed) {
  Tree tree;  // Strix Point: four cores of Zen 5, eight of Zen 5c
  add_cores(tree, 12);
  amd(tree);
  std::vector<int> performance(12, 125);
  std::vector<int> khz(12, 3'300'000);
  std::fill_n(performance.begin(), 4, 196);
  std::fill_n(khz.begin(), 4, 5'100'000);
  add_to_cores(tree, "acpi_cppc/highest_perf", performance);
  add_to_cores(tree, "cpufreq/cpuinfo_max_freq", khz);
  add_to_cores(tree, "cpufreq/scaling_max_freq", khz);
  EXPECT_EQ(kinds_of(machine_in(tree).topology),
            (Kinds{{"4-11", "slow today: highest_perf 125, of fast cores 196"}, {"0-3", "fast today"}}));
}

TEST(CoreSpeeds, RanksOfOthersStaySpeeds) {
  Tree tree;
  add_cores(tree, 8);
  tree.file("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\n");
  add_figures(tree, "acpi_cppc/highest_perf", {170, 170, 236, 170, 170, 236, 170, 170});
  EXPECT_EQ(kinds_of(machine_in(tree).topology)[1],
            (std::pair<std::string, std::string>{"2,5", "fast today"}));
}

TEST(CoreSpeeds, ClocksThatDifferByAFewPerCentAreOneKind) {
  Tree tree;
  add_cores(tree, 8);
  add_highest_clocks(
      tree, {5'000'000, 5'050'000, 5'100'000, 5'150'000, 5'200'000, 5'250'000, 5'300'000, 5'350'000});
  EXPECT_LE(machine_in(tree).topology.cpu_kinds.size(), 1u);
  EXPECT_EQ(kind_by_core(machine_in(tree).topology), std::vector<int>(8, 0));
}

TEST(CoreSpeeds, TwoNodesOfOneClassDifferInTheirFastCoresOnly) {
  const int low = 3'600'000;
  const int high = 4'600'000;
  Tree one;
  Tree other;
  for (Tree* const tree : {&one, &other}) add_cores(*tree, 8);
  add_highest_clocks(one, {low, high, low, low, high, low, low, low});
  add_highest_clocks(other, {low, low, low, high, low, low, high, low});
  EXPECT_EQ(kinds_of(machine_in(one).topology)[1].first, "1,4");
  EXPECT_EQ(kinds_of(machine_in(other).topology)[1].first, "3,6");
  EXPECT_EQ(machine_class_of(machine_in(one).topology), machine_class_of(machine_in(other).topology));
  EXPECT_EQ(kinds_of(without_speeds(one)), kinds_of(without_speeds(other)));
  EXPECT_EQ(kind_by_core(without_speeds(one)), kind_by_core(without_speeds(other)));
}

TEST(CoreSpeeds, TwoMakesStayTwoWithoutTheSpeeds) {
  const std::vector<int> clocks{2'800'000, 2'800'000, 2'800'000, 3'200'000,
                                1'800'000, 1'800'000, 1'800'000, 1'800'000};
  Tree arm;
  add_cores(arm, 8);
  add_highest_clocks(arm, clocks);
  add_figures(arm, "cpu_capacity", {1024, 1024, 1024, 1024, 446, 446, 446, 446});
  Tree intel;
  add_cores(intel, 8);
  add_highest_clocks(intel, clocks);
  intel.file("/sys/devices/cpu_core/cpus", "0-3").file("/sys/devices/cpu_atom/cpus", "4-7");
  for (const Tree* const tree : {&arm, &intel}) {
    EXPECT_EQ(kinds_of(without_speeds(*tree)), (Kinds{{"4-7", ""}, {"0-3", ""}}));
    EXPECT_EQ(kinds_of(machine_in(*tree).topology),
              (Kinds{{"4-7", ""},
                     {"0-2", "slow today: scaling_max_freq 2.80 GHz, of fast cores 3.20 GHz"},
                     {"3", "fast today"}}));
  }
}

TEST(CoreSpeeds, AMakeKeepsItsNumberIfItsCoresDifferToday) {
  std::vector<CpuKind> kinds(4);
  kinds[1].divides_make = true;
  kinds[3].divides_make = true;
  EXPECT_EQ(make_of(kinds, 0), 0);
  EXPECT_EQ(make_of(kinds, 1), 0);
  EXPECT_EQ(make_of(kinds, 2), 1);
  EXPECT_EQ(make_of(kinds, 3), 1);
  EXPECT_EQ(make_of({}, 0), 0);
}

TEST(CoreSpeeds, CoresThatAreAlikeChangeNothing) {
  Tree tree;
  add_cores(tree, 8);
  const std::vector<Core> before = machine_in(tree).topology.cores;
  add_figures(tree, "acpi_cppc/highest_perf", {50, 48, 52, 51, 50, 49, 50, 50});  // within 10 %
  add_figures(tree, "cpufreq/base_frequency", std::vector<int>(8, 2'600'000));
  add_figures(tree, "cpufreq/scaling_max_freq", std::vector<int>(8, 1'200'000));  // all pinned low
  const Topology topology = machine_in(tree).topology;
  EXPECT_FALSE(has_fast_cores_of_today(topology));
  EXPECT_LE(topology.cpu_kinds.size(), 1u);
  for (const Core& core : topology.cores) EXPECT_EQ(core.kind, 0);
}

TEST(CoreSpeeds, AFigureThatSomeCoresLackDoesNotCount) {
  Tree tree;
  add_cores(tree, 4);
  add_figures(tree, "acpi_cppc/highest_perf", {40, 40, 52});
  EXPECT_FALSE(has_fast_cores_of_today(machine_in(tree).topology));
  add_figures(tree, "acpi_cppc/highest_perf", {40, 40, 52, 0});
  EXPECT_FALSE(has_fast_cores_of_today(machine_in(tree).topology)) << "0 is no figure";
}

TEST(CoreSpeeds, EachMakeIsDividedByItself) {
  Topology topology;
  topology.cpus = parse_cpu_list("0-5", "test");
  for (int cpu = 0; cpu < 6; ++cpu) {
    Core core;
    core.cpus = {Pu{cpu}};
    core.kind = cpu < 4 ? 1 : 0;
    topology.cores.push_back(core);
  }
  topology.cpu_kinds = {{parse_cpu_list("4-5", "test"), 0, "small", {}, {}},
                        {parse_cpu_list("0-3", "test"), 1, "big", {}, {}}};
  std::vector<CoreSpeed> speeds(6);
  for (std::size_t core = 0; core < 6; ++core) speeds[core].priority = core == 2 ? 60 : core < 4 ? 50 : 20;
  divide_kinds_by_speed(topology, speeds);
  EXPECT_EQ(
      kinds_of(topology),
      (Kinds{{"4-5", ""}, {"0-1,3", "slow today: highest_perf 50, of fast cores 60"}, {"2", "fast today"}}));
  EXPECT_EQ(kind_by_core(topology), (std::vector<int>{1, 1, 2, 1, 0, 0}));
  EXPECT_EQ(topology.cpu_kinds[2].description, "big");
  EXPECT_EQ(topology.cpu_kinds[2].efficiency_rank, 2);
  EXPECT_EQ(make_of(topology.cpu_kinds, 0), 0);
  EXPECT_EQ(make_of(topology.cpu_kinds, 1), 1);
  EXPECT_EQ(make_of(topology.cpu_kinds, 2), 1);
}

TEST(CoreSpeeds, TheyAreNoPartOfTheClassAndMayBeLeftUnread) {
  Tree tree;
  add_cores(tree, 8);
  const std::string before = machine_class_of(machine_in(tree).topology).fingerprint;
  add_figures(tree, "cpufreq/base_frequency", {kLow, kHigh, kLow, kLow, kHigh, kLow, kHigh, kLow});
  EXPECT_EQ(machine_class_of(machine_in(tree).topology).fingerprint, before);
  EXPECT_EQ(kind_by_core(without_speeds(tree)), std::vector<int>(8, 0));
}

}  // namespace
}  // namespace zf
