#include "inspect/job_processes.hpp"

#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"
#include "launchers/local_rank.hpp"
#include "launchers/openmp_variables.hpp"
#include "os/same_file.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// Returns the rank of a process that exec started. A ZF_RANK that is not a number does not come from exec.
std::optional<int> rank_in(const std::optional<Environment>& environment) {
  const auto by_exec = parse_number<int>(environment ? environment->get("ZF_RANK").value_or("") : "");
  if (!by_exec) return std::nullopt;
  try {
    return local_rank(*environment)->value;
  } catch (const Error&) {  // a variable of another launcher
    return by_exec;
  }
}

/// Returns a process under a plan; nothing if it has ended. `environment` is what it was started with.
std::optional<JobProcess> job_process(const SysRoot& sysroot, int pid, int rank,
                                      const Environment& environment) {
  auto process = read_process(sysroot, pid);
  if (!process) return std::nullopt;
  JobProcess member;
  member.side = process->name == "zf-optimizer" ? Side::optimizer : Side::trainer;
  member.process = std::move(*process);
  member.rank = rank;
  member.plan = environment.get("ZF_PLAN").value_or("");
  member.memory = memory_by_node(sysroot, pid);
  member.available = available_cpus(sysroot, pid);
  try {
    member.binding = own_binding(environment);
  } catch (const Error& error) {
    member.binding_fault = error.what();
  }
  std::vector<CpuSet> homes;
  if (member.binding) homes.push_back(process_cpus(member.binding->rank, member.binding->framework).cpus);
  for (const OpenmpBinding& found : openmp_bindings(environment, homes))
    member.openmp.push_back(format_text("{}={}", found.variable, found.value));
  return member;
}

}  // namespace

std::vector<JobProcess> processes_below(const SysRoot& sysroot, int pid, std::optional<int> rank) {
  std::vector<JobProcess> found;
  std::set<int> family{pid};
  // Process ids wrap around, so a child may have a lower id than its parent: repeat until no new one is
  // found.
  for (std::size_t known = 0; known != family.size();) {
    known = family.size();
    for (const int id : process_ids(sysroot)) {
      const auto process = read_process(sysroot, id);
      if (process && family.contains(process->parent)) family.insert(id);
    }
  }
  for (const int id : family) {
    const auto environment = environment_of(sysroot, id);
    const auto own = rank_in(environment);
    if (!own && !rank) continue;
    auto process = job_process(sysroot, id, own ? *own : *rank, environment.value_or(Environment()));
    if (process) found.push_back(std::move(*process));
  }
  return found;
}

std::vector<JobProcess> processes_of_job(const SysRoot& sysroot, const std::optional<std::string>& slurm_job,
                                         const std::optional<std::filesystem::path>& plan) {
  std::vector<JobProcess> found;
  for (const int id : process_ids(sysroot)) {
    const auto environment = environment_of(sysroot, id);
    const auto rank = rank_in(environment);
    if (!rank || (slurm_job && environment->get("SLURM_JOB_ID") != slurm_job)) continue;
    auto process = job_process(sysroot, id, *rank, *environment);
    if (process && (!plan || same_file(process->plan, *plan))) found.push_back(std::move(*process));
  }
  return found;
}

}  // namespace zf
