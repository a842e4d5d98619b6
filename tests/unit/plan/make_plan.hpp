// A sound plan to break in tests: two ranks in a sparse Slurm allocation.
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
  binding.pt_reserved_cores_perc = reserved_perc(binding.pt_reserved_cores, binding.pt_reserved_cores + pool);
  return binding;
}

inline Plan make_plan() {
  Plan plan;
  plan.made = {"zf-tune 0.1.0", "2026-11-20T21:00:00Z", "node17", "zf-tune tune --ranks 2"};
  plan.machine = {"00c0ffee00c0ffee", "Test CPU", 2, 2, 48, 48, parse_cpu_list("0-47", "test")};
  plan.allocation = {"0123456789abcdef", parse_cpu_list("0,4-11,21-26,30-46", "test"),
                     parse_node_list("0-1", "test"), 31.5, 64ULL << 30};
  plan.workload = {"small", 3085938688, 2, 4};
  plan.intent = {Placement::compact, 1, 5, 0.6875};
  plan.ranks = {make_rank(0, "0,4-11,21-22", "23-26,30", "0-1"), make_rank(1, "31-41", "42-46", "1")};
  plan.choice = {"5 cores saturate the memory", 1, 201000000, 5};
  plan.evidence.roofline = {1.25e11 + 1.0 / 3, 10};
  plan.evidence.elements_per_rank = 32U << 20;
  plan.evidence.working_set_bytes_per_rank = 512U << 20;
  plan.evidence.isa = "avx512";
  plan.evidence.noise_floor = 0.011;
  plan.evidence.candidates = {
      {0, "pool 1, compact", 15, 1, 1, Placement::compact, 900000000, 0.02, 0.97},
      {1, "pool 5, spread", 11, 5, 5, Placement::spread, 201000000, 0.015, 0.1 + 0.2}};
  plan.evidence.samples = {
      {0, 0, 900000000, 870000000}, {1, 0, 200000000, 190000000}, {1, 1, 202000000, 191000000}};
  plan.warnings = {"I/O discovery took over 3 s: no GPUs"};
  return plan;
}

}  // namespace zf
