#include "inspect/doctor.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "inspect/home_use.hpp"
#include "launchers/core_shortage.hpp"
#include "os/shared_cpus.hpp"
#include "plan/given_policy.hpp"
#include "plan/json_fields.hpp"
#include "plan/plan_check.hpp"
#include "plan/plan_json.hpp"
#include "text/units.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

constexpr std::chrono::milliseconds kWatchTime{500};

/// Returns the processes under a plan, with the bindings that hold for them as far as they can be read.
std::vector<JobProcess> bound_processes(const SysRoot& sysroot) {
  auto job = processes_of_job(sysroot, std::nullopt, std::nullopt);
  for (JobProcess& member : job) {
    try {
      member.binding = binding_in_force(member);
    } catch (const Error&) {  // verify names the cause
    }
  }
  return job;
}

/// Returns the binding that this process has got; nothing if it has none or it is malformed.
std::optional<ProcessBinding> readable_binding(const Environment& environment) {
  try {
    return own_binding(environment);
  } catch (const Error&) {  // the runtime names the cause
    return std::nullopt;
  }
}

}  // namespace

Patient observe_node(const SysRoot& sysroot, const std::optional<std::filesystem::path>& plan) {
  Patient patient;
  patient.sysroot = sysroot;
  OwnJob own;
  if (plan) {
    patient.plan = load_plan(*plan);
    own.plan = std::filesystem::absolute(*plan);
  }
  if (patient.plan) {
    patient.ranks = static_cast<int>(patient.plan->ranks.size());
    patient.cores = cores_of_ranks(*patient.plan);
  }
  patient.allowed = read_allowed(sysroot);
  patient.isolated = read_isolated_cpus(sysroot);
  patient.allowed.shared_cpus = neighbours_share(patient.allowed, patient.isolated);
  if (sysroot.is_this_machine()) patient.environment = Environment::of_this_process();
  patient.allowed.more_cpus = how_to_get_cpus(patient.environment, patient.allowed);
  patient.binding = readable_binding(patient.environment);
  patient.cpus = patient.plan      ? planned_cpus(*patient.plan)
                 : patient.binding ? patient.binding->rank.home.cpus
                                   : patient.allowed.cpus;
  patient.job = bound_processes(sysroot);
  own.slurm_job = patient.environment.get("SLURM_JOB_ID");
  patient.before = sample_activity(sysroot, ::getpid(), own);
  if (sysroot.is_this_machine()) {
    patient.given_policy = policy_of_others(patient.environment);
    patient.refused_calls = try_system_calls();
    patient.kept = look_for_kept(keep_folder(patient.environment.get("ZF_KEEP_FOLDER")));
    patient.user = ::geteuid();
    std::this_thread::sleep_for(kWatchTime);
  }
  patient.after = sample_activity(sysroot, ::getpid(), own);
  return patient;
}

const std::vector<Check>& checks() {
  static const std::vector<Check> all{
      {"system-calls", system_call_findings},
      {"launcher", launcher_findings},
      {"late-binding", late_binding_findings},
      {"divided-homes", divided_home_findings},
      {"openmp", openmp_findings},
      {"few-cores", core_findings},
      {"quota", quota_findings},
      {"neighbours", neighbour_findings},
      {"far-gpus", far_gpu_findings},
      {"busy-cpus", busy_findings},
      {"interrupts", interrupt_findings},
      {"isolated-cpus", isolated_findings},
      {"governor", governor_findings},
      {"clock-limits", clock_limit_findings},
      {"numa", numa_findings},
      {"huge-pages", huge_page_findings},
      {"memory", memory_findings},
      {"memory-policy", memory_policy_findings},
      {"shared-memory", shared_memory_findings},
      {"locked-memory", locked_memory_findings},
      {"swap", swap_findings},
      {"kept", kept_findings},
  };
  return all;
}

std::vector<Diagnosis> examine(const Patient& patient) {
  std::vector<Diagnosis> diagnoses;
  for (const Check& check : checks()) {
    for (Finding& finding : check.examine(patient)) diagnoses.push_back({check.name, std::move(finding)});
  }
  std::stable_sort(diagnoses.begin(), diagnoses.end(), [](const Diagnosis& a, const Diagnosis& b) {
    return a.finding.severity > b.finding.severity;
  });
  return diagnoses;
}

bool plans_job_runs(const Patient& patient) {
  if (!patient.plan) return false;
  const std::string id = plan_id(*patient.plan);
  return std::any_of(patient.job.begin(), patient.job.end(), [&](const JobProcess& member) {
    return member.binding && member.binding->plan_id == id;
  });
}

CpuSet planned_cpus(const Plan& plan) {
  CpuSet cpus;
  for (const RankBinding& rank : plan.ranks) cpus |= rank.home.cpus;
  return cpus;
}

std::string diagnosis_text(const std::vector<Diagnosis>& diagnoses, std::size_t width) {
  std::string text;
  for (const Diagnosis& diagnosis : diagnoses) {
    const Finding& finding = diagnosis.finding;
    text += wrapped(
        format_text("{}: {}: {}", name_of(finding.severity), diagnosis.check, one_line(finding.what)), width);
    text += hanging("    ", one_line(finding.remedy), width);
  }
  const std::size_t count = diagnoses.size();
  return text + format_text("{} checks, {}\n", checks().size(),
                            count == 0 ? "nothing found" : print_count(count, "finding"));
}

std::string diagnosis_json(const std::vector<Diagnosis>& diagnoses) {
  nlohmann::ordered_json document{{"checks", nlohmann::ordered_json::array()},
                                  {"findings", nlohmann::ordered_json::array()}};
  for (const Check& check : checks()) document["checks"].push_back(check.name);
  for (const Diagnosis& diagnosis : diagnoses) {
    document["findings"].push_back({{"check", diagnosis.check},
                                    {"severity", name_of(diagnosis.finding.severity)},
                                    {"what", diagnosis.finding.what},
                                    {"remedy", diagnosis.finding.remedy}});
  }
  return print_json(document);
}

}  // namespace zf
