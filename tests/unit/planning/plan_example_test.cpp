// The example plans in configs/examples: made by the code that makes every plan, on machines made by hand.
// ZF_REGENERATE=1 writes them again; review the difference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "../topology/make_topology.hpp"
#include "base/format.hpp"
#include "homes/rank_homes.hpp"
#include "os/file.hpp"
#include "paths.hpp"
#include "plan/plan_json.hpp"
#include "planning/assemble.hpp"
#include "report/reasons.hpp"
#include "search/contest.hpp"
#include "search/tuning.hpp"

namespace zf {
namespace {

/// Returns a plan without measurements.
Plan plan_of(const Topology& topology, const Allowed& allowed, int ranks, const SplitShape& shape) {
  const Provenance made{"zf-tune 0.1.0", "2026-11-20T21:00:00Z", "node17", "zf-tune tune"};
  const RankHomes placed = rank_homes({topology, allowed}, rank_gpus({}, topology, ranks));
  const Split split = split_of(placed.homes, shape);
  Choice choice;
  for (const RankSplit& rank : split.ranks) {
    choice.pool_threads = std::max(choice.pool_threads, static_cast<int>(rank.pool.size()));
  }
  return assemble(made, {topology, allowed}, {"3B", 3085938688, ranks, 4, {}, Mode::overlap}, split, choice,
                  {}, {}, placed.notes);
}

/// Adds a candidate with one sample per round: optimizer steps and training steps in milliseconds.
void add_candidate(Evidence& evidence, const Split& split, const std::vector<double>& step_ms,
                   const std::vector<double>& training_ms) {
  constexpr double kNsPerMs = 1e6;
  const auto id = static_cast<int>(evidence.candidates.size());
  evidence.candidates.push_back(new_candidate(id, split));
  for (std::size_t round = 0; round < step_ms.size(); ++round) {
    SplitSample times;
    times.step_ns = std::llround(step_ms[round] * kNsPerMs);
    times.roofline_ns = std::llround(0.97 * step_ms[round] * kNsPerMs);
    times.training_ns = std::llround(training_ms[round] * kNsPerMs);
    times.launch_delay_p50_ns = 9000;
    times.launch_delay_p99_ns = 84000;
    times.training_bytes = 6ULL << 30;
    evidence.samples.push_back({id, static_cast<int>(round), times});
  }
}

/// Returns a plan of two ranks in a sparse Slurm allocation, with evidence as from a sweep (the figures are
/// invented).
Plan slurm_sparse_32() {
  Topology topology = slurm_sparse_machine();
  for (const NumaNode& node : topology.nodes) {
    topology.gpus.push_back(
        {format_text("0000:{}:00.0", node.id.os_index == 0 ? "3b" : "86"), "a GPU", node.cpus, node.id});
  }
  Allowed allowed = make_allowed(topology, kSlurmSparseMask);
  allowed.memory_bytes = 96ULL << 30;
  Plan plan = plan_of(topology, allowed, 2, {.pool_cores = 6});
  plan.machine.model = "an example";
  Evidence& evidence = plan.evidence;
  evidence.elements_per_rank = 1U << 28;
  evidence.working_set_bytes_per_rank = 4ULL << 30;
  evidence.scale = 0.174;
  evidence.isa = "avx512";
  evidence.accuracy_wanted = 0.02;

  const std::vector<Home> homes = homes_of(topology, allowed, std::vector<Preference>(2));
  add_candidate(evidence, split_of(homes, {.control = Control::unbound}), {171.0, 183.2, 176.4},
                {44.1, 46.0, 45.2});
  add_candidate(evidence, split_of(homes, {.pool_cores = 4}), {121.5, 121.0, 120.1}, {23.1, 23.0, 23.2});
  add_candidate(evidence, split_of(homes, {.pool_cores = 6}), {97.0, 97.4, 96.6}, {24.0, 24.2, 24.1});
  add_candidate(evidence, split_of(homes, {.control = Control::half}), {96.5, 96.0, 95.4},
                {27.3, 26.9, 27.0});
  summarize(evidence, plan.workload);
  plan.choice = choose(evidence, plan.workload);
  const Decision decision = decide(contest_of(evidence, plan.workload));
  plan.choice.reason = reason_of(evidence, plan.workload, decision, 0);
  return plan;
}

/// Returns a plan without measurements for one allowed core, which both sides share.
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
  const auto path = std::filesystem::path(kSourceDir) / "configs" / "examples" / name;
  if (std::getenv("ZF_REGENERATE") != nullptr) save_plan(plan, path);
  EXPECT_EQ(read_text_file(path), print_plan(plan)) << "if that is meant, run again with ZF_REGENERATE=1";
  EXPECT_EQ(load_plan(path), plan);
}

TEST(PlanExample, SlurmSparse32) { expect_example("slurm-sparse-32.json", slurm_sparse_32()); }
TEST(PlanExample, OneCore) { expect_example("one-core.json", one_core()); }

}  // namespace
}  // namespace zf
