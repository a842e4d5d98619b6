// The example plans in configs/examples, made by the code that makes every plan, on machines made by hand.
// ZF_REGENERATE=1 writes them anew; review the difference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "make_topology.hpp"
#include "os/file.hpp"
#include "plan/plan_json.hpp"
#include "tuner/assemble.hpp"

namespace zf {
namespace {

/// Nothing measured yet.
Plan plan_of(const Topology& topology, const Allowed& allowed, int ranks, const SplitShape& shape) {
  const Provenance made{"zf-tune 0.1.0", "2026-11-20T21:00:00Z", "node17", "zf-tune tune"};
  const Split split =
      split_of(homes_of(topology, allowed, std::vector<RankWish>(static_cast<std::size_t>(ranks))), shape);
  Choice choice;
  for (const RankSplit& rank : split.ranks) {
    choice.pool_threads = std::max(choice.pool_threads, static_cast<int>(rank.pool.size()));
  }
  return assemble(made, {topology, allowed}, {"3B", 3085938688, ranks, 4}, split, choice, {}, {});
}

/// Two ranks in a sparse Slurm allocation, with evidence as a sweep leaves it (the figures are invented).
Plan slurm_sparse_32() {
  const Topology topology = slurm_sparse_machine();
  Allowed allowed = make_allowed(topology, kSlurmSparseMask);
  allowed.memory_bytes = 96ULL << 30;
  Plan plan = plan_of(topology, allowed, 2, {.pool_cores = 6});
  plan.machine.model = "an example";
  plan.choice.reason =
      "6 cores (pool 6, compact) take 97.0 ms per step, a tie (within 2.0 %) with the fastest pool (pool 8, "
      "compact "
      "at 96.0 ms): memory bandwidth is saturated, so the other 10 cores of each rank train";
  plan.choice.candidate = 1;
  plan.choice.period_ns_median = 97000000;
  plan.evidence.roofline = {187.5e9, 16};
  plan.evidence.elements_per_rank = 1U << 28;
  plan.evidence.working_set_bytes_per_rank = 4ULL << 30;
  plan.evidence.isa = "avx512";
  plan.evidence.noise_floor = 0.008;
  plan.evidence.candidates = {{0, "pool 4, compact", 12, 4, 4, Placement::compact, 121000000, 0.012, 0.98},
                              {1, "pool 6, compact", 10, 6, 6, Placement::compact, 97000000, 0.009, 0.97},
                              {2, "pool 8, compact", 8, 8, 8, Placement::compact, 96000000, 0.011, 0.97}};
  plan.evidence.samples = {
      {0, 0, 121500000, 118580000}, {1, 0, 97000000, 94090000}, {2, 0, 96500000, 93605000},
      {0, 1, 121000000, 118580000}, {1, 1, 97400000, 94090000}, {2, 1, 96000000, 93120000},
      {0, 2, 120100000, 118000000}, {1, 2, 96600000, 93900000}, {2, 2, 95400000, 92800000}};
  return plan;
}

/// One allowed core, nothing measured: both sides share it.
Plan one_core() {
  const Topology topology =
      make_topology({.cores_per_l3 = 4, .pus_per_core = 2, .numbering = Numbering::interleaved});
  Allowed allowed = make_allowed(topology, "1,5");
  allowed.cpu_quota = 1.5;
  Plan plan = plan_of(topology, allowed, 1, {.pool_cores = 1});
  plan.workload.update_interval = 1;
  plan.choice.reason = "nothing was measured: one core is all there is, and training and optimizer share it";
  return plan;
}

void expect_example(const char* name, const Plan& plan) {
  const auto path = std::filesystem::path(ZF_SOURCE_DIR) / "configs" / "examples" / name;
  if (std::getenv("ZF_REGENERATE") != nullptr) save_plan(plan, path);
  EXPECT_EQ(read_text_file(path), print_plan(plan)) << "if that is meant, run again with ZF_REGENERATE=1";
  EXPECT_EQ(load_plan(path), plan);
}

TEST(PlanExample, SlurmSparse32) { expect_example("slurm-sparse-32.json", slurm_sparse_32()); }
TEST(PlanExample, OneCore) { expect_example("one-core.json", one_core()); }

}  // namespace
}  // namespace zf
