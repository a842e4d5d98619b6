// Exports for numactl, taskset, srun, mpirun, hwloc, OpenMP, torchrun and a shell.
#include "exports/export.hpp"

#include <cstdint>
#include <vector>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "launch/variables.hpp"
#include "plan/plan_json.hpp"
#include "text/command_line.hpp"

namespace zf {
namespace {

/// Returns the CPUs as a bitmap in words of 32 bits, lowest first; at least one word.
std::vector<std::uint32_t> bitmap_words(const CpuSet& cpus) {
  std::vector<std::uint32_t> result(cpus.empty() ? 1
                                                 : static_cast<std::size_t>(cpus.last().os_index) / 32 + 1);
  for (const Pu pu : cpus) result[static_cast<std::size_t>(pu.os_index) / 32] |= 1U << (pu.os_index % 32);
  return result;
}

/// Returns a mask as Slurm reads it: "0xff00000000".
std::string slurm_mask(const CpuSet& cpus) {
  const auto all = bitmap_words(cpus);
  std::string mask = format_text("0x{:x}", all.back());
  for (std::size_t i = all.size() - 1; i-- > 0;) mask += format_text("{:08x}", all[i]);
  return mask;
}

/// Returns a bitmap as hwloc-bind and hwloc-calc read it: "0x000000ff,0x00000000".
std::string hwloc_bitmap(const CpuSet& cpus) {
  const auto all = bitmap_words(cpus);
  std::string text;
  for (std::size_t i = all.size(); i-- > 0;) text += format_text("0x{:08x}{}", all[i], i == 0 ? "" : ",");
  return text;
}

/// Returns numactl's option for the memory policy. --preferred takes one node; --preferred-many needs
/// Linux 5.15 and numactl 2.0.15.
std::string memory_option(const OptimizerSide& side) {
  if (side.mems.empty() || side.memory_policy == MemoryPolicy::none) return "";
  const char* option = side.memory_policy == MemoryPolicy::bind ? "--membind"
                       : side.mems.size() > 1                   ? "--preferred-many"
                                                                : "--preferred";
  return format_text(" {}={}", option, print(side.mems));
}

/// Returns the CPUs on which the rule starts the process of a rank.
ProcessCpus started_on(const ExportInput& input, const RankBinding& rank) {
  return process_cpus(rank, input.plan.workload.framework);
}

/// Returns an OpenMP place: "{0,4:8}" is CPU 0 and the eight from 4 on.
std::string place_of(const CpuSet& cpus) {
  std::string place;
  for (auto at = cpus.begin(); at != cpus.end();) {
    const int first = at->os_index;
    int count = 0;
    while (at != cpus.end() && at->os_index == first + count) ++at, ++count;
    place += format_text("{}{}", place.empty() ? "" : ",", first);
    if (count > 1) place += format_text(":{}", count);
  }
  return "{" + place + "}";
}

}  // namespace

// numactl --physcpubind takes OS indexes. It refuses CPUs outside the mask of the process that starts it.

Export numactl_export(const ExportInput& input) {
  Export result;
  for (const RankBinding& rank : input.ranks) {
    result.text += format_text("numactl --physcpubind={}{}\n", print(started_on(input, rank).cpus),
                               memory_option(rank.optimizer));
  }
  return result;
}

Export taskset_export(const ExportInput& input) {
  Export result;
  for (const RankBinding& rank : input.ranks) {
    result.text += format_text("taskset -c {}\n", print(started_on(input, rank).cpus));
  }
  result.notes = {"taskset cannot place memory; zf-tune exec and numactl can"};
  return result;
}

// srun --cpu-bind=mask_cpu:M0,M1,…: one mask per local task, OS indexes (srun(1), Slurm 22.05).

Export slurm_export(const ExportInput& input) {
  Export result;
  for (const RankBinding& rank : input.ranks) {
    result.text +=
        (result.text.empty() ? "--cpu-bind=mask_cpu:" : ",") + slurm_mask(started_on(input, rank).cpus);
  }
  result.text += "\n";
  result.notes = {
      "srun obeys these masks only with task/affinity and in a job that has the whole node (--exclusive); "
      "otherwise start the tasks with srun --cpu-bind=none ... zf-tune exec, "
      "which checks that its binding took effect"};
  return result;
}

// Open MPI's rankfile. Its numbers are logical indexes unless rmaps_rank_file_physical makes them OS indexes.
// Each number stands for the whole core of that CPU.

Export mpirun_export(const ExportInput& input) {
  if (input.plan.allocation.shared_cpus && input.ranks.size() > 1) {
    throw Error(
        Exit::infeasible,
        "zf-tune export: --for mpirun: neighbours share the plan's CPUs, so homes overlap, and Open MPI "
        "binds no two ranks to one CPU",
        "start the ranks with mpirun --bind-to none ... zf-tune exec");
  }
  Export result;
  for (const RankBinding& rank : input.ranks) {
    result.text += format_text("rank {}=localhost slot={}\n", rank.rank, print(started_on(input, rank).cpus));
  }
  result.notes = {
      format_text("for Open MPI 4, on this node: mpirun -n {} --mca rmaps_rank_file_physical 1 --rankfile "
                  "FILE ...; it binds the whole core of each CPU",
                  input.ranks.size())};
  return result;
}

// A bitmap for hwloc-bind and hwloc-calc. Writing it does not need hwloc.

Export hwloc_export(const ExportInput& input) {
  Export result;
  for (const RankBinding& rank : input.ranks)
    result.text += hwloc_bitmap(started_on(input, rank).cpus) + "\n";
  return result;
}

// One OpenMP place that holds all CPUs of the process.
//
// One place per CPU would not follow the plan. libgomp takes OMP_PLACES as an order to bind (OMP_PROC_BIND is
// then true by default) and binds the program's first thread to the first place as soon as libgomp is loaded.
// Every thread that a Python trainer starts later inherits that mask: the data loaders, autograd and CUDA's
// helpers would share one CPU (seen with GCC 12). With a single place only the pinning of single threads is
// lost.

Export openmp_export(const ExportInput& input) {
  const ProcessCpus process = started_on(input, input.ranks.front());
  Export result;
  result.text = format_text("export OMP_NUM_THREADS={}\nexport OMP_PLACES='{}'\n", process.threads,
                            place_of(process.cpus));
  result.notes = {
      "all threads share one place, because the data loaders of a Python trainer inherit the binding of "
      "its first thread; threads that OpenMP does not start are bound only by zf-tune exec"};
  return result;
}

// torchrun sets OMP_NUM_THREADS=1 for its processes if it is not set; exec replaces that (thread_counts()).

Export torchrun_export(const ExportInput& input) {
  Export result;
  // Every release accepts the spellings with underscores.
  result.text = format_text("torchrun --nproc_per_node={} --no_python zf-tune exec --plan {} --\n",
                            input.ranks.size(), shell_quoted(input.plan_path.string()));
  result.notes = {"the trainer's command and its interpreter follow: ... -- python3 train.py"};
  return result;
}

// The variables that exec sets for its command, for a shell that starts the command by other means.

Export env_export(const ExportInput& input) {
  Export result;
  for (const auto& [name, value] : variables_of(
           {input.ranks.front(), input.plan.workload.framework, StartedOn::nothing, plan_id(input.plan)},
           input.plan_path)) {
    result.text += format_text("export {}={}\n", name, shell_quoted(value));
  }
  result.notes = {"variables bind nothing by themselves; zf-tune exec sets them and binds"};
  return result;
}

}  // namespace zf
