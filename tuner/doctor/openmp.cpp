// OpenMP runtimes bind by themselves, and count their threads by themselves, where the environment says so.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "tuner/doctor/doctor.hpp"

namespace zf {
namespace {

/// One "{…}" and nothing else: threads float in it, as they do under a plan.
bool is_one_place(const std::string& places) {
  return places.starts_with('{') && places.find('}') == places.size() - 1;
}

bool is_off(const std::string& proc_bind) { return proc_bind == "false" || proc_bind == "FALSE"; }

std::string unset(const char* name) { return fmt::format("unset {}", name); }

void examine_binding(const Environment& environment, std::vector<Finding>& findings) {
  if (const auto value = environment.get("KMP_AFFINITY")) {
    findings.push_back(
        {Severity::severe,
         fmt::format("KMP_AFFINITY={}: Intel's OpenMP binds threads where it likes, and DeepSpeed's "
                     "launcher refuses to bind at all",
                     *value),
         unset("KMP_AFFINITY")});
  }
  if (const auto value = environment.get("GOMP_CPU_AFFINITY")) {
    findings.push_back(
        {Severity::severe,
         fmt::format("GOMP_CPU_AFFINITY={}: libgomp binds to these CPUs, whatever the plan says", *value),
         unset("GOMP_CPU_AFFINITY")});
  }
  const std::string bind = environment.get("OMP_PROC_BIND").value_or("");
  const auto places = environment.get("OMP_PLACES");
  const bool one_place = places && is_one_place(*places);
  if (is_off(bind) || one_place) return;
  if (!bind.empty() || places) {
    findings.push_back(
        {Severity::warning,
         fmt::format("{} makes OpenMP bind the trainer's first thread to one place, which data loaders "
                     "and autograd threads inherit",
                     bind.empty() ? "OMP_PLACES=" + *places : "OMP_PROC_BIND=" + bind),
         "unset OMP_PROC_BIND OMP_PLACES"});
  }
}

void examine_count(const Patient& patient, const char* name, std::vector<Finding>& findings) {
  const auto value = patient.environment.get(name);
  if (!value) return;
  int count = 0;
  const char* end = value->data() + value->size();
  if (std::from_chars(value->data(), end, count).ptr != end)
    return;  // "4,2": nested levels, the user's business
  if (!patient.plan) {
    if (count > static_cast<int>(patient.cpus.size())) {
      findings.push_back({Severity::warning,
                          fmt::format("{}={} threads on {} allowed CPUs", name, count, patient.cpus.size()),
                          unset(name)});
    }
    return;
  }
  const auto& ranks = patient.plan->ranks;
  const auto other = std::find_if(ranks.begin(), ranks.end(),
                                  [&](const RankBinding& rank) { return rank.training.threads != count; });
  if (other == ranks.end()) return;
  findings.push_back({Severity::warning,
                      fmt::format("{}={} wins over the plan's {} threads for rank {}", name, count,
                                  other->training.threads, other->rank),
                      fmt::format("{}: zf-tune exec sets it", unset(name))});
}

}  // namespace

std::vector<Finding> openmp_findings(const Patient& patient) {
  std::vector<Finding> findings;
  examine_binding(patient.environment, findings);
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}) examine_count(patient, name, findings);
  return findings;
}

}  // namespace zf
