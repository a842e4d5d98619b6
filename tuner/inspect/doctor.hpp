// Finds what slows down or stops a training job on this node, with a remedy for each finding. The checks are
// pure: they read only a Patient: its SysRoot may be a folder of files.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.hpp"
#include "inspect/activity.hpp"
#include "inspect/job_processes.hpp"
#include "inspect/kept_ranks.hpp"
#include "os/allowed.hpp"
#include "os/environment.hpp"
#include "os/isolated.hpp"
#include "os/sysroot.hpp"
#include "plan/plan.hpp"
#include "plan/process_binding.hpp"
#include "text/table.hpp"

namespace zf {

enum class Severity {
  note,     ///< costs little time, or costs only some jobs time
  warning,  ///< costs time
  severe,   ///< something will be refused, or the plan will not be carried out
};

template <>
inline constexpr auto kEnumNames<Severity> = std::to_array<EnumName<Severity>>(
    {{Severity::note, "note"}, {Severity::warning, "warning"}, {Severity::severe, "severe"}});

struct Finding {
  Severity severity = Severity::note;
  std::string what;    ///< one line that names the file, variable or process
  std::string remedy;  ///< one line
};

/// Everything that the checks read.
struct Patient {
  SysRoot sysroot;
  Environment environment;
  Allowed allowed;
  std::optional<Plan> plan;
  CpuSet cpus;  ///< the plan's homes; without a plan, this process's own home, else all allowed CPUs
  ActivitySample before;
  ActivitySample after;
  IsolatedCpus isolated = {};
  std::vector<std::string> refused_calls;      ///< from try_system_calls()
  std::optional<ProcessBinding> binding = {};  ///< what zf-tune exec gave this process, if it started it
  int ranks = 0;                               ///< of this node's job; 0: not known
  std::size_t cores = 0;                       ///< those that the ranks have together
  std::vector<JobProcess> job = {};  ///< every process of this node that zf-tune exec started; each with its
                                     ///< binding, if it can be read
  std::optional<ThreadPolicy> given_policy = {};  ///< see policy_of_others()
  std::optional<Finding> memory = {};             ///< that the plan's job does not fit this node's memory
  std::map<std::string, CpuSet> gpus =
      {};                             ///< the CPUs near each GPU that this job can use, by its PCI address
  std::optional<KeptHere> kept = {};  ///< of this machine alone
  uid_t user = 0;                     ///< who will train
};

/// Watches a node for half a second and returns what the checks read. `plan`: the file: its CPUs are
/// examined, and its job is not counted as a neighbour. A node that is a folder of files is read at
/// once, and no system calls are tried there. The numbers of ranks and cores are those of the plan. Throws as
/// load_plan() and read_allowed() do.
Patient observe_node(const SysRoot& sysroot, const std::optional<std::filesystem::path>& plan);

struct Check {
  std::string_view name;
  std::vector<Finding> (*examine)(const Patient& patient);
};

/// Returns all checks in the order of the report.
const std::vector<Check>& checks();

struct Diagnosis {
  std::string_view check;
  Finding finding;
};

/// Returns the findings of all checks: the most severe first, equal ones in the order of checks().
std::vector<Diagnosis> examine(const Patient& patient);

/// Returns the homes of all ranks of the plan.
CpuSet planned_cpus(const Plan& plan);

/// Returns true if a process of this node runs under the patient's plan.
bool plans_job_runs(const Patient& patient);

/// Returns in one line whether the allowed CPUs are the job's own or shared, and, where GPUs are known,
/// whether some are near them: "CPUs 2-9: this job's own (no quota); near its GPU". Without a newline.
std::string cpus_in_a_line(const Patient& patient);

/// Returns text for a person, ended by a newline. Its lines have at most `width` columns, except words that
/// are longer.
std::string diagnosis_text(const std::vector<Diagnosis>& diagnoses, std::size_t width = kUnlimitedWidth);

/// Returns {"checks": ["openmp", …], "findings": [{"check", "severity": "note" | "warning" | "severe",
/// "what", "remedy"}]}
std::string diagnosis_json(const std::vector<Diagnosis>& diagnoses);

// doctor_binding.cpp: what binds elsewhere, or runs on the same CPUs.
std::vector<Finding> launcher_findings(const Patient& patient);
std::vector<Finding> late_binding_findings(const Patient& patient);
std::vector<Finding> divided_home_findings(const Patient& patient);
std::vector<Finding> openmp_findings(const Patient& patient);
std::vector<Finding> busy_findings(const Patient& patient);
std::vector<Finding> interrupt_findings(const Patient& patient);

// doctor_calls.cpp: which system calls the kernel refuses.

/// Tries the system calls that carrying out a plan needs (set_mempolicy, mbind, move_pages,
/// sched_setaffinity) in ways that change nothing. Returns one sentence for each call that the kernel
/// refused.
std::vector<std::string> try_system_calls();
std::vector<Finding> system_call_findings(const Patient& patient);

// doctor_cpus.cpp: what takes CPU time away.
std::vector<Finding> core_findings(const Patient& patient);
std::vector<Finding> quota_findings(const Patient& patient);
std::vector<Finding> neighbour_findings(const Patient& patient);
std::vector<Finding> far_gpu_findings(const Patient& patient);
std::vector<Finding> isolated_findings(const Patient& patient);
std::vector<Finding> governor_findings(const Patient& patient);
std::vector<Finding> clock_limit_findings(const Patient& patient);

// doctor_kept.cpp: what is kept of trainers that have ended.
std::vector<Finding> kept_findings(const Patient& patient);

// doctor_memory.cpp: what limits memory, or slows it down.
std::vector<Finding> memory_findings(const Patient& patient);
std::vector<Finding> memory_policy_findings(const Patient& patient);
std::vector<Finding> shared_memory_findings(const Patient& patient);
std::vector<Finding> locked_memory_findings(const Patient& patient);
std::vector<Finding> huge_page_findings(const Patient& patient);
std::vector<Finding> numa_findings(const Patient& patient);
std::vector<Finding> swap_findings(const Patient& patient);

}  // namespace zf
