// What will hurt a training job on this node, each with its remedy. The checks are pure: all they know is in
// a Patient, whose SysRoot may be a folder of files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/activity.hpp"
#include "os/allowed.hpp"
#include "os/environment.hpp"
#include "os/sysroot.hpp"
#include "plan/plan.hpp"

namespace zf {

enum class Severity {
  note,     ///< costs little, or only some jobs
  warning,  ///< costs time
  severe,   ///< something will be refused, or the plan will not be obeyed
};

struct Finding {
  Severity severity = Severity::note;
  std::string what;    ///< one line, with the file, variable or process
  std::string remedy;  ///< one line
};

struct Patient {
  SysRoot sysroot;
  Environment environment;
  Allowed allowed;
  std::optional<Plan> plan;
  CpuSet cpus;  ///< the plan's; without a plan, all that are allowed
  ActivitySample before;
  ActivitySample after;
  std::vector<std::string> refused_calls;  ///< of try_system_calls()
};

struct Check {
  std::string_view name;
  std::vector<Finding> (*examine)(const Patient& patient);
};

/// All of them, in the order of the report.
const std::vector<Check>& checks();

struct Diagnosis {
  std::string_view check;
  Finding finding;
};

/// The findings of all checks; the worst first, else in the order of checks().
std::vector<Diagnosis> examine(const Patient& patient);

/// Every CPU that some rank of the plan uses.
CpuSet cpus_of(const Plan& plan);

/// For a person, ended by a newline.
std::string diagnosis_text(const std::vector<Diagnosis>& diagnoses);

/// {"checks": ["openmp", …], "findings": [{"check", "severity": "note" | "warning" | "severe", "what",
/// "remedy"}]}
std::string diagnosis_json(const std::vector<Diagnosis>& diagnoses);

/// Asks the kernel for what the plan's obedience needs (set_mempolicy, mbind, move_pages, sched_setaffinity),
/// in ways that change nothing, and says in words what it refused.
std::vector<std::string> try_system_calls();

std::vector<Finding> openmp_findings(const Patient& patient);
std::vector<Finding> launcher_findings(const Patient& patient);
std::vector<Finding> late_binding_findings(const Patient& patient);
std::vector<Finding> quota_findings(const Patient& patient);
std::vector<Finding> system_call_findings(const Patient& patient);
std::vector<Finding> shared_memory_findings(const Patient& patient);
std::vector<Finding> locked_memory_findings(const Patient& patient);
std::vector<Finding> huge_page_findings(const Patient& patient);
std::vector<Finding> numa_findings(const Patient& patient);
std::vector<Finding> governor_findings(const Patient& patient);
std::vector<Finding> swap_findings(const Patient& patient);
std::vector<Finding> busy_findings(const Patient& patient);
std::vector<Finding> interrupt_findings(const Patient& patient);

}  // namespace zf
