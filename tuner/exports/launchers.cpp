// The plan in the words of numactl, taskset, srun, mpirun, hwloc, OpenMP, torchrun and a shell.
#include "exports/export.hpp"

#include <fmt/core.h>

#include <cstdint>
#include <vector>

#include "base/cpu_list.hpp"
#include "launch/exec.hpp"
#include "text/command_line.hpp"

namespace zf {
namespace {

/// Lowest word first; at least one.
std::vector<std::uint32_t> words(const CpuSet& cpus) {
  std::vector<std::uint32_t> result(cpus.empty() ? 1
                                                 : static_cast<std::size_t>(cpus.last().os_index) / 32 + 1);
  for (const Pu pu : cpus) result[static_cast<std::size_t>(pu.os_index) / 32] |= 1U << (pu.os_index % 32);
  return result;
}

}  // namespace

std::string mask_of(const CpuSet& cpus) {
  const auto all = words(cpus);
  std::string mask = fmt::format("0x{:x}", all.back());
  for (std::size_t i = all.size() - 1; i-- > 0;) mask += fmt::format("{:08x}", all[i]);
  return mask;
}

std::string words_of(const CpuSet& cpus) {
  const auto all = words(cpus);
  std::string text;
  for (std::size_t i = all.size(); i-- > 0;) text += fmt::format("0x{:08x}{}", all[i], i == 0 ? "" : ",");
  return text;
}

// numactl --physcpubind takes OS indexes; it refuses CPUs outside the mask that it is started with.

namespace {

/// --preferred takes one node; --preferred-many needs Linux 5.15 and numactl 2.0.15.
std::string memory_option(const OptimizerSide& side) {
  if (side.mems.empty()) return "";
  const char* option = side.memory_policy == MemoryPolicy::bind ? "--membind"
                       : side.mems.size() > 1                   ? "--preferred-many"
                                                                : "--preferred";
  return fmt::format(" {}={}", option, print(side.mems));
}

}  // namespace

Export numactl_export(const ExportInput& input) {
  Export result;
  for (const RankBinding& rank : input.ranks) {
    result.text +=
        fmt::format("numactl --physcpubind={}{}\n", print(rank.training.cpus), memory_option(rank.optimizer));
  }
  return result;
}

Export taskset_export(const ExportInput& input) {
  Export result;
  for (const RankBinding& rank : input.ranks) {
    result.text += fmt::format("taskset -c {}\n", print(rank.training.cpus));
  }
  result.notes = {"taskset cannot place memory; zf-tune exec and numactl can"};
  return result;
}

// srun --cpu-bind=mask_cpu:M0,M1,…: one mask per local task, OS indexes (srun(1), Slurm 22.05).

Export slurm_export(const ExportInput& input) {
  Export result;
  for (const RankBinding& rank : input.ranks) {
    result.text += (result.text.empty() ? "--cpu-bind=mask_cpu:" : ",") + mask_of(rank.training.cpus);
  }
  result.text += "\n";
  result.notes = {
      "srun obeys these masks only with task/affinity and in a job that has the whole node (--exclusive); "
      "otherwise start the tasks with srun --cpu-bind=none … zf-tune exec, which reads its binding back"};
  return result;
}

// Open MPI's rankfile. Its numbers are logical unless rmaps_rank_file_physical says that they are the OS's,
// and each stands for the whole core that holds that CPU.

Export mpirun_export(const ExportInput& input) {
  Export result;
  for (const RankBinding& rank : input.ranks) {
    result.text += fmt::format("rank {}=localhost slot={}\n", rank.rank, print(rank.training.cpus));
  }
  result.notes = {
      fmt::format("for Open MPI 4, on this node: mpirun -n {} --mca rmaps_rank_file_physical 1 --rankfile "
                  "FILE …; it binds the whole core of each CPU",
                  input.ranks.size())};
  return result;
}

// What hwloc-bind and hwloc-calc read. Nothing of hwloc itself is needed to write it.

Export hwloc_export(const ExportInput& input) {
  Export result;
  for (const RankBinding& rank : input.ranks) result.text += words_of(rank.training.cpus) + "\n";
  return result;
}

// One place that holds all training CPUs of the rank.
//
// A place per CPU would be another plan: libgomp takes OMP_PLACES for an order to bind (OMP_PROC_BIND is then
// true by default) and puts the program's first thread on the first place as soon as it is loaded. Every
// thread that a Python trainer starts later inherits that mask: the data loaders, autograd and CUDA's helpers
// would share one CPU (seen with GCC 12). In one place nothing is lost but the pinning of single threads.

namespace {

/// "{0,4:8}": 0, and the eight from 4 on.
std::string place_of(const CpuSet& cpus) {
  std::string place;
  for (auto at = cpus.begin(); at != cpus.end();) {
    const int first = at->os_index;
    int count = 0;
    while (at != cpus.end() && at->os_index == first + count) ++at, ++count;
    place += fmt::format("{}{}", place.empty() ? "" : ",", first);
    if (count > 1) place += fmt::format(":{}", count);
  }
  return "{" + place + "}";
}

}  // namespace

Export openmp_export(const ExportInput& input) {
  const TrainingSide& training = input.ranks.front().training;
  Export result;
  result.text = fmt::format("export OMP_NUM_THREADS={}\nexport OMP_PLACES='{}'\n", training.threads,
                            place_of(training.cpus));
  result.notes = {
      "all threads share one place: a Python trainer whose first thread is bound to a single CPU hands that "
      "on "
      "to its data loaders. Threads that OpenMP does not start are bound by zf-tune exec only"};
  return result;
}

// torchrun sets OMP_NUM_THREADS=1 for its processes unless it is set, and exec leaves alone what it finds
// set: so the variable is taken out between the two.

Export torchrun_export(const ExportInput& input) {
  Export result;
  // The spellings with underscores are those that every release takes.
  result.text = fmt::format(
      "torchrun --nproc_per_node={} --no_python env -u OMP_NUM_THREADS zf-tune exec --plan {} --\n",
      input.ranks.size(), shell_quoted(input.plan_path.string()));
  result.notes = {
      "the trainer's command follows, with its interpreter: … -- python3 train.py; OMP_NUM_THREADS is the "
      "plan's"};
  return result;
}

// What exec sets for its command, for a shell that starts the command by other means.

Export env_export(const ExportInput& input) {
  Export result;
  for (const auto& [name, value] : variables_of(input.ranks.front(), input.plan_path)) {
    result.text += fmt::format("export {}={}\n", name, shell_quoted(value));
  }
  result.notes = {"variables bind nothing by themselves: zf-tune exec sets them and binds"};
  return result;
}

}  // namespace zf
