#include "inspect/doctor.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "commands/commands.hpp"
#include "commands/shared_arguments.hpp"
#include "plan/plan_json.hpp"

namespace zf {
namespace {

constexpr std::chrono::milliseconds kLook{500};

CommandSpec spec() {
  return {"doctor",
          "doctor [--plan FILE] [--format text|json] [--strict]",
          "Lists what will slow down a training job on this node, with a remedy for each finding. Watches "
          "the node for half a second and changes nothing.",
          {
              {"plan", 'p', "FILE",
               "examine the CPUs, threads and size of this plan, and treat the processes that run under it "
               "as its job (default: examine all allowed CPUs)"},
              format_option(),
              {"strict", 0, "",
               "exit with 3 if a finding is worse than a note (default: exit with 0 whatever is found)"},
              {"sysroot", 0, "DIR",
               "use another machine: a folder that holds its /proc and /sys (default: /; e.g. capture)"},
          }};
}

Patient patient_of(const Arguments& arguments) {
  Patient patient;
  patient.sysroot = machine_source(arguments).sysroot;
  OwnJob own;
  if (const auto path = arguments.text("plan")) {
    patient.plan = load_plan(*path);
    own.plan = std::filesystem::absolute(*path);
  }
  patient.allowed = read_allowed(patient.sysroot);
  patient.cpus = patient.plan ? planned_cpus(*patient.plan) : patient.allowed.cpus;
  if (patient.sysroot.is_this_machine()) patient.environment = Environment::of_this_process();
  own.slurm_job = patient.environment.get("SLURM_JOB_ID");
  patient.before = sample_activity(patient.sysroot, ::getpid(), own);
  if (patient.sysroot.is_this_machine()) {
    patient.refused_calls = try_system_calls();
    std::this_thread::sleep_for(kLook);
  }
  patient.after = sample_activity(patient.sysroot, ::getpid(), own);
  return patient;
}

Exit run(const Arguments& arguments) {
  const Format format = format_argument(arguments);
  const auto diagnoses = examine(patient_of(arguments));
  fmt::print("{}", format == Format::json ? diagnosis_json(diagnoses) : diagnosis_text(diagnoses));
  const bool hurts = !diagnoses.empty() && diagnoses.front().finding.severity > Severity::note;
  return hurts && arguments.has("strict") ? Exit::stale_plan : Exit::done;
}

}  // namespace

Command doctor_command() { return {spec(), run}; }

}  // namespace zf
