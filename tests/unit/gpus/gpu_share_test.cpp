// Ranks that are not as many as GPUs: several GPUs of a rank, several ranks on a GPU, parts of GPUs.
#include "plan/gpu_share.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../topology/make_topology.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "gpus/moved_gpus.hpp"
#include "gpus/rank_gpus.hpp"
#include "gpus/spread.hpp"
#include "gpus/visible_gpus.hpp"
#include "machine/rank_count.hpp"
#include "topology/gpu_rules.hpp"

namespace zf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

using Variables = std::map<std::string, std::string>;

constexpr GpuShare kTwoGpus{2, 0};
constexpr GpuShare kTwoRanks{0, 2};

/// Returns two packages with four GPUs of NVIDIA each, marked as this machine; GPU i is on bus i.
Topology eight_gpus() {
  Topology topology = make_topology({.packages = 2, .cores_per_l3 = 8});
  topology.is_this_machine = true;
  for (int i = 0; i < 8; ++i) {
    const NumaNode& node = topology.nodes[static_cast<std::size_t>(i / 4)];
    Gpu gpu{format_text("0000:{:02}:00.0", i), "NVIDIA H200", node.cpus, node.id, format_text("GPU-{}-0", i)};
    gpu.vendor_id = kNvidia;
    gpu.minor = i;
    topology.gpus.push_back(std::move(gpu));
  }
  return topology;
}

/// Returns four APUs in four packages, each divided into three parts that ROCm counts one after the other.
Topology four_apus() {
  Topology topology = make_topology({.packages = 4, .cores_per_l3 = 6});
  topology.is_this_machine = true;
  for (int i = 0; i < 4; ++i) {
    const NumaNode& node = topology.nodes[static_cast<std::size_t>(i)];
    Gpu gpu{format_text("0000:{:02}:00.0", i), "MI300A", node.cpus, node.id};
    gpu.vendor_id = kAmd;
    gpu.parts = 3;
    gpu.framework_number = 3 * i;
    gpu.uuid = format_text("GPU-{:016x}", i + 1);
    topology.gpus.push_back(std::move(gpu));
  }
  return topology;
}

/// Returns the buses of each rank's GPUs: "0+1"; "-" if they are unknown.
std::vector<std::string> buses_of_ranks(const RankGpus& ranks) {
  std::vector<std::string> list;
  for (std::size_t rank = 0; rank < ranks.gpus.size(); ++rank) {
    list.push_back(ranks.gpus[rank] ? ranks.gpus[rank]->pci_address.substr(6, 1) : "-");
    if (ranks.more.empty()) continue;
    for (const Gpu& gpu : ranks.more[rank]) list.back() += "+" + gpu.pci_address.substr(6, 1);
  }
  return list;
}

RankGpus of(const Variables& variables, int ranks, GpuShare share, const Topology& topology = eight_gpus()) {
  return rank_gpus(Environment(variables), topology, ranks, share);
}

std::string refusal(std::optional<int> ranks, GpuShare share, const Topology& topology = eight_gpus()) {
  try {
    rank_count_of(ranks, {}, topology, share);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    return error.what();
  }
  return "";
}

TEST(GpuShare, ARankHasSeveralGpusInARow) {
  EXPECT_THAT(buses_of_ranks(of({}, 4, kTwoGpus)), ElementsAre("0+1", "2+3", "4+5", "6+7"));
  EXPECT_THAT(of({}, 4, kTwoGpus).notes, IsEmpty());
  EXPECT_THAT(buses_of_ranks(of({{"CUDA_VISIBLE_DEVICES", "7,0,1,6"}}, 2, kTwoGpus)),
              ElementsAre("7+0", "1+6"));
  EXPECT_THAT(buses_of_ranks(of({{"SLURM_STEP_GPUS", "4,5,6,7"}}, 2, kTwoGpus)), ElementsAre("4+5", "6+7"));
  EXPECT_THAT(buses_of_ranks(of({{"CUDA_VISIBLE_DEVICES", "2,3"}, {"LOCAL_RANK", "1"}}, 4, kTwoGpus)),
              ElementsAre("-", "2+3", "-", "-"))
      << "a list of one task";
  EXPECT_THAT(of({}, 3, kTwoGpus).notes, ElementsAre("2 of 8 GPUs have no rank"));
}

TEST(GpuShare, ARanksGpusAreOnePlace) {
  const RankGpus same = of({}, 4, kTwoGpus);
  EXPECT_EQ(place_of_gpus(same, 3)->node, Node{1});
  EXPECT_EQ(print(place_of_gpus(same, 3)->local_cpus), "8-15");
  const RankGpus crossed = of({{"CUDA_VISIBLE_DEVICES", "3,4"}}, 1, kTwoGpus);
  EXPECT_EQ(place_of_gpus(crossed, 0)->node, std::nullopt);
  EXPECT_EQ(print(place_of_gpus(crossed, 0)->local_cpus), "0-15");
}

TEST(GpuShare, SeveralRanksInARowHaveOneGpu) {
  EXPECT_THAT(buses_of_ranks(of({}, 16, kTwoRanks)),
              ElementsAre("0", "0", "1", "1", "2", "2", "3", "3", "4", "4", "5", "5", "6", "6", "7", "7"));
  EXPECT_THAT(buses_of_ranks(of({{"CUDA_VISIBLE_DEVICES", "5,1"}}, 4, kTwoRanks)),
              ElementsAre("5", "5", "1", "1"));
  EXPECT_THAT(of({}, 4, kTwoRanks).notes, ElementsAre("6 of 8 GPUs have no rank"));
}

TEST(GpuShare, PartsOfGpusAreCountedOnlyIfThatIsSaid) {
  const RankGpus guessed = of({}, 12, {}, four_apus());
  EXPECT_THAT(buses_of_ranks(guessed), testing::Each("-"));
  EXPECT_THAT(guessed.notes,
              ElementsAre(HasSubstr("GPU 0000:00:00.0 is divided into 3 parts: ROCm's numbers "
                                    "count its parts; --ranks-per-gpu 3 gives a rank to each")));
  const std::vector<std::string> by_threes{"0", "0", "0", "1", "1", "1", "2", "2", "2", "3", "3", "3"};
  EXPECT_EQ(buses_of_ranks(of({}, 12, {0, 3}, four_apus())), by_threes);
  EXPECT_THAT(buses_of_ranks(of({{"HIP_VISIBLE_DEVICES", "11,0,5"}}, 3, {0, 3}, four_apus())),
              ElementsAre("3", "0", "1"))
      << "numbers of parts";
  EXPECT_THAT(buses_of_ranks(of({{"ROCR_VISIBLE_DEVICES", "GPU-0000000000000004,GPU-0000000000000001"}}, 4,
                                {0, 6}, four_apus())),
              ElementsAre("3", "3", "0", "0"))
      << "two ranks on each part";
  Topology unordered = four_apus();
  unordered.gpus[2].framework_number.reset();
  EXPECT_THAT(buses_of_ranks(of({}, 12, {0, 3}, unordered)), testing::Each("-"))
      << "ROCm's order is not known";
}

TEST(GpuShare, MoreRanksThanGpusAreNotGuessed) {
  const RankGpus ranks = of({}, 16, {});
  EXPECT_THAT(buses_of_ranks(ranks), testing::Each("-"));
  EXPECT_THAT(ranks.notes,
              ElementsAre(HasSubstr(
                  "this machine has 8 GPUs for 16 ranks; --ranks-per-gpu 2 gives each GPU to 2 ranks")));
  EXPECT_THAT(of({}, 9, {}).notes, ElementsAre(testing::EndsWith("this machine has 8 GPUs for 9 ranks")));
}

TEST(GpuShare, FewerRanksThanGpusAreSaid) {
  EXPECT_THAT(buses_of_ranks(of({}, 4, {})), ElementsAre("0", "1", "2", "3"));
  EXPECT_EQ(of({}, 4, {}).notes.front(),
            "4 ranks have 8 GPUs: rank i is taken to use GPU i alone; --gpus-per-rank 2 gives each rank 2");
  EXPECT_EQ(of({}, 1, {}).notes.front(),
            "1 rank has 8 GPUs: it is taken to use GPU 0 alone; --gpus-per-rank 8 gives it all");
  EXPECT_EQ(of({}, 5, {}).notes.front(), "5 ranks have 8 GPUs: rank i is taken to use GPU i alone");
  EXPECT_THAT(of({{"CUDA_VISIBLE_DEVICES", "4,5,6,7"}}, 2, {}).notes,
              ElementsAre("2 ranks have 4 GPUs (CUDA_VISIBLE_DEVICES): rank i is taken to use GPU i alone; "
                          "--gpus-per-rank 2 gives each rank 2"))
      << "the user's choice is not to be spread";
}

TEST(GpuShare, FewerRanksThanGpusCanBeSpreadOverPackages) {
  const RankGpus ranks = of({}, 4, {});
  std::vector<std::string> addresses;
  for (const Gpu& gpu : ranks.spread) addresses.push_back(gpu.pci_address.substr(6, 1));
  EXPECT_THAT(addresses, ElementsAre("0", "2", "4", "6"));
  EXPECT_EQ(
      ranks.spread_note,
      "these GPUs are near 1 package: `zf-tune exec --set-gpus` spreads the ranks over 2, by "
      "CUDA_VISIBLE_DEVICES=GPU-0-0,GPU-2-0,GPU-4-0,GPU-6-0 for all ranks (entry i is the GPU of rank i); if "
      "you set that yourself, make the plan with it");
  EXPECT_TRUE(is_spread_near(ranks, parse_cpu_list("0,8", "test")));
  EXPECT_FALSE(is_spread_near(ranks, parse_cpu_list("0-7", "test"))) << "no CPU near GPUs 4 and 6";
  EXPECT_THAT(of({}, 1, {}).spread, IsEmpty()) << "one rank has one package";
  EXPECT_THAT(of({}, 7, {}).spread, IsEmpty()) << "4 ranks in one package either way";
  EXPECT_EQ(of({}, 5, {}).spread.size(), 5U) << "3 and 2 ranks, not 4 and 1";
  EXPECT_THAT(of({}, 4, kTwoGpus).spread, IsEmpty());
  Topology in_turn = eight_gpus();
  for (std::size_t i = 0; i < 8; ++i) in_turn.gpus[i].local_cpus = in_turn.nodes[i % 2].cpus;
  EXPECT_THAT(of({}, 4, {}, in_turn).spread, IsEmpty()) << "the first four are spread";
}

TEST(GpuShare, ListsNameGpusSurely) {
  std::vector<RankGpu> gpus;
  for (const Gpu& gpu : usable_gpus(eight_gpus())) gpus.push_back(planned_gpu(gpu));
  gpus.erase(gpus.begin(), gpus.begin() + 6);
  EXPECT_EQ(in_words(variables_of_gpus(gpus, true)), "CUDA_VISIBLE_DEVICES=GPU-6-0,GPU-7-0");
  EXPECT_EQ(in_words(variables_of_gpus(gpus, false)),
            "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=6,7");
  gpus[1].uuid.clear();
  EXPECT_EQ(in_words(variables_of_gpus(gpus, true)), "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=6,7");
  gpus[0].cuda_number.reset();
  EXPECT_EQ(in_words(variables_of_gpus(gpus, true)), "") << "one has no name";
  const std::vector<RankGpu> amd{planned_gpu(four_apus().gpus[2])};
  EXPECT_EQ(in_words(variables_of_gpus(amd, true)), "ROCR_VISIBLE_DEVICES=GPU-0000000000000003");
  EXPECT_EQ(in_words(variables_of_gpus(amd, false)), "") << "ROCm's numbers are not in the plan";
}

TEST(GpuShare, TheNumberOfRanksFollows) {
  const auto count = [](GpuShare share, const Variables& variables = {},
                        const Topology& node = eight_gpus()) {
    return rank_count_of({}, Environment(variables), node, share);
  };
  EXPECT_EQ(count(kTwoGpus).count, 4);
  EXPECT_EQ(rank_count_note(count(kTwoGpus)), "4 ranks (8 GPUs, --gpus-per-rank 2; --ranks changes it)");
  EXPECT_EQ(count(kTwoRanks).count, 16);
  EXPECT_EQ(count({0, 3}, {}, four_apus()).count, 12);
  EXPECT_EQ(count(kTwoGpus, {{"CUDA_VISIBLE_DEVICES", "0,1,2,3"}}).count, 2);
  EXPECT_EQ(count({0, 3}, {{"HIP_VISIBLE_DEVICES", "0,1,2"}}, four_apus()).count, 3) << "numbers of parts";
  EXPECT_EQ(count(kTwoGpus, {{"SLURM_NTASKS_PER_NODE", "3"}}).count, 3) << "the launcher knows";
  EXPECT_EQ(count(kTwoGpus, {{"SLURM_NTASKS_PER_NODE", "1"}}).count, 4) << "one task may be torchrun";
  EXPECT_EQ(rank_count_of(3, {}, eight_gpus(), kTwoGpus).count, 3);
}

TEST(GpuShare, ContradictionsAreErrors) {
  EXPECT_EQ(refusal(4, {2, 2}),
            "--gpus-per-rank and --ranks-per-gpu contradict each other; give one of them");
  EXPECT_EQ(refusal(5, kTwoGpus),
            "--gpus-per-rank 2: 5 ranks need 10 GPUs, and this node has 8; there is room for 4 ranks: give "
            "--ranks or "
            "the option another number");
  EXPECT_THAT(refusal(17, kTwoRanks),
              StartsWith("--ranks-per-gpu 2: 17 ranks need 9 GPUs, and this node has 8; "));
  EXPECT_EQ(refusal({}, {3, 0}),
            "--gpus-per-rank 3: 8 GPUs cannot be divided so; say with --ranks how many ranks there are");
  EXPECT_EQ(refusal({}, kTwoRanks, four_apus()),
            "--ranks-per-gpu 2: GPU 0000:00:00.0 is divided into 3 parts; give --ranks-per-gpu 3, which "
            "gives a rank "
            "to each part");
  EXPECT_THAT(refusal({}, {2, 0}, four_apus()),
              StartsWith("--gpus-per-rank 2: GPU 0000:00:00.0 is divided into 3 parts; "));
  EXPECT_THAT(refusal(1, kTwoGpus, make_topology({})),
              StartsWith("--gpus-per-rank 2: no GPU that this job can use is known here; "));
  const Environment task(Variables{{"CUDA_VISIBLE_DEVICES", "2,3"}, {"LOCAL_RANK", "1"}});
  EXPECT_EQ(rank_count_of(4, task, eight_gpus(), kTwoGpus).count, 4) << "the list may be one task's";
}

/// Returns a plan for ranks with these GPUs of eight_gpus().
Plan plan_with(GpuShare share, const std::vector<std::vector<std::size_t>>& gpus) {
  const std::vector<Gpu> all = usable_gpus(eight_gpus());
  Plan plan;
  plan.intent.gpus_per_rank = share.gpus_per_rank;
  plan.intent.ranks_per_gpu = share.ranks_per_gpu;
  for (const std::vector<std::size_t>& own : gpus) {
    RankBinding& rank = plan.ranks.emplace_back();
    rank.gpu = planned_gpu(all[own.front()]);
    for (std::size_t i = 1; i < own.size(); ++i) rank.more_gpus.push_back(planned_gpu(all[own[i]]));
  }
  return plan;
}

TEST(GpuShare, AMovedPlanKeepsItsShare) {
  const Plan plan = plan_with(kTwoGpus, {{6, 7}, {4, 5}});
  Topology topology = eight_gpus();
  topology.gpus = planned_gpus(plan, topology);
  EXPECT_EQ(topology.gpus.size(), 4U);
  const RankGpus moved = moved_gpus({}, topology, plan, 2);
  EXPECT_THAT(buses_of_ranks(moved), ElementsAre("6+7", "4+5"));
  EXPECT_EQ(moved.share, kTwoGpus);
  EXPECT_EQ(moved.gpus[0]->cuda_number, 6);
  EXPECT_THAT(buses_of_ranks(moved_gpus({}, topology, plan, 3)), ElementsAre("6+7", "4+5", "-"));
  const Environment step(Variables{{"SLURM_STEP_GPUS", "0,1,2,3"}});
  EXPECT_THAT(buses_of_ranks(moved_gpus(step, eight_gpus(), plan, 2)), ElementsAre("0+1", "2+3"));
  const Environment small_step(Variables{{"SLURM_STEP_GPUS", "0,1"}});
  EXPECT_THAT(buses_of_ranks(moved_gpus(small_step, eight_gpus(), plan, 2)), ElementsAre("6+7", "4+5"))
      << "too few";
  const Plan shared = plan_with(kTwoRanks, {{3}, {3}});
  EXPECT_EQ(planned_gpus(shared, topology).size(), 1U);
  EXPECT_THAT(buses_of_ranks(moved_gpus(small_step, eight_gpus(), shared, 2)), ElementsAre("0", "0"));
}

TEST(GpuShare, ARenewedPlanHasTheShareThatIsSaid) {
  const Plan plan = plan_with({}, {{0}, {1}, {2}, {3}});
  EXPECT_THAT(buses_of_ranks(renewed_gpus({}, eight_gpus(), plan, 4)), ElementsAre("0", "1", "2", "3"));
  EXPECT_EQ(renewed_gpus({}, eight_gpus(), plan, 4).spread.size(), 4U);
  EXPECT_THAT(buses_of_ranks(renewed_gpus({}, eight_gpus(), plan, 4, kTwoGpus)),
              ElementsAre("0+1", "2+3", "4+5", "6+7"));
  const Plan chosen = plan_with({}, {{0}, {2}, {4}, {6}});
  EXPECT_THAT(renewed_gpus({}, eight_gpus(), chosen, 4).notes, IsEmpty()) << "not GPU i";
  const Plan elsewhere = [&] {
    Plan other = plan_with(kTwoGpus, {{0, 1}, {2, 3}});
    for (RankBinding& rank : other.ranks) rank.more_gpus[0].pci_address = "0001:00:00.0";
    return other;
  }();
  EXPECT_THAT(buses_of_ranks(renewed_gpus({}, eight_gpus(), elsewhere, 2)), ElementsAre("0+1", "2+3"));
}

TEST(GpuShare, AListIsComparedWithAllGpusOfThePlan) {
  const auto compared = [](const Plan& plan, const char* list) {
    return compare_visible_gpus(Environment(Variables{{"CUDA_VISIBLE_DEVICES", list}}), gpus_of_ranks(plan));
  };
  const Plan plan = plan_with(kTwoGpus, {{4, 5}, {6, 7}});
  EXPECT_EQ(compared(plan, "4,5,6,7").difference, "");
  EXPECT_THAT(compared(plan, "4,6,5,7").difference, HasSubstr("lists 4,6,5,7, and the plan's GPUs are"));
  EXPECT_EQ(
      compared(plan, "4,5").not_compared,
      "CUDA_VISIBLE_DEVICES lists 2 GPUs, fewer than the plan's 4, so it may be one rank's own: it is not "
      "compared with the plan's GPUs");
  const Plan shared = plan_with(kTwoRanks, {{4}, {4}, {5}, {5}});
  EXPECT_EQ(compared(shared, "4,5").difference, "");
  EXPECT_EQ(compared(shared, "5,4").difference.empty(), false);
}

}  // namespace
}  // namespace zf
