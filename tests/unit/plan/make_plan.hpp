// Makes a valid plan for tests to break: two ranks in a sparse Slurm allocation.
#pragma once

#include "base/cpu_list.hpp"
#include "plan/plan.hpp"
#include "plan/reserved_perc.hpp"

namespace zf {

inline RankBinding make_rank(int rank, const char* training, const char* optimizer, const char* mems) {
  RankBinding binding;
  binding.rank = rank;
  binding.training.cpus = parse_cpu_list(training, "test");
  binding.training.threads = static_cast<int>(binding.training.cpus.size());
  binding.optimizer.cpus = parse_cpu_list(optimizer, "test");
  binding.optimizer.mems = parse_node_list(mems, "test");
  binding.pt_reserved_cores = binding.training.threads;
  const int pool = static_cast<int>(binding.optimizer.cpus.size());
  binding.home = {binding.both_sides(), binding.training.threads + pool};
  binding.pt_reserved_cores_perc = reserved_perc(binding.pt_reserved_cores, binding.pt_reserved_cores + pool);
  return binding;
}

inline Plan make_plan() {
  Plan plan;
  plan.made = {"zf-tune 0.1.0", "2026-11-20T21:00:00Z", "node17", "zf-tune tune --ranks 2"};
  plan.machine = {"00c0ffee00c0ffee", "Test CPU", 2, 2, 48, 48, parse_cpu_list("0-47", "test")};
  plan.allocation = {"0123456789abcdef",
                     parse_cpu_list("0,4-11,21-26,30-46", "test"),
                     parse_node_list("0-1", "test"),
                     31.5,
                     64ULL << 30,
                     {"rank 1 is far from its GPU"}};
  plan.workload = {
      "small",
      3085938688,
      2,
      4,
      TrainingDemand{3780, 6000, 893000000, 21601570816, 3085938688, 3085938688, 12000000000, 0.3125},
      Mode::overlap};
  plan.intent = {Placement::compact, 1, 5, 0.6875, 0.0625, 1};
  plan.ranks = {make_rank(0, "0,4-11,21-22", "23-26,30", "0-1"), make_rank(1, "31-41", "42-46", "1")};
  plan.ranks[1].gpu = RankGpu{"0000:3b:00.0", Node{1}};
  plan.choice = {"5 cores saturate the memory", 1, 201000000, 5};
  plan.evidence.roofline = {1.25e11 + 1.0 / 3, 10};
  plan.evidence.elements_per_rank = 32U << 20;
  plan.evidence.working_set_bytes_per_rank = 512U << 20;
  plan.evidence.isa = "avx512";
  plan.evidence.noise_floor = 0.011;
  plan.evidence.scale = 0.02;
  plan.evidence.accuracy_wanted = 0.02;
  plan.evidence.accuracy_reached = 0.013;
  plan.evidence.candidates.resize(2);
  CandidateEvidence& small = plan.evidence.candidates[0];
  small.label = "pool 1, compact";
  small.reserved_cores = 15;
  small.pool_cores = small.pool_threads = 1;
  small.period_ns_median = small.step_ns_median = 900000000;
  small.period_spread = small.step_spread = 0.02;
  small.training_ns_median = 40000000;
  small.exposed_ns_median = 740000000;
  small.roofline_ratio = 0.97;
  CandidateEvidence& half = plan.evidence.candidates[1];
  half.id = 1;
  half.label = "pool 5, spread";
  half.control = Control::half;
  half.reserved_cores = 5;
  half.idle_cores = 6;
  half.pool_cores = half.pool_threads = 5;
  half.placement = Placement::spread;
  half.pool_make = 0;
  half.period_ns_median = half.step_ns_median = 201000000;
  half.period_spread = half.step_spread = half.training_spread = 0.015;
  half.training_ns_median = 41000000;
  half.exposed_ns_median = 37000000;
  half.launch_delay_p50_ns = 12000;
  half.launch_delay_p99_ns = 230000;
  half.roofline_ratio = 0.1 + 0.2;
  plan.evidence.samples = {{0, 0, {900000000, 870000000, 40000000, 9000, 90000, 1U << 30}},
                           {1, 0, {200000000, 190000000, 41000000, 12000, 230000, 1U << 30}},
                           {1, 1, {202000000, 191000000, 41000000, 12000, 230000, 1U << 30}}};
  plan.trial = Trial{"torchrun train.py",
                     "step: ([0-9.]+) ms",
                     false,
                     {{"unbound", Control::unbound, false, 8, 120.5, {{120.5, 121.5}, {119.5}}},
                      {"pool 5, spread", Control::none, true, 5, 100.25, {{100.25}}}},
                     1};
  plan.warnings = {"I/O discovery took over 3 s: no GPUs"};
  return plan;
}

}  // namespace zf
