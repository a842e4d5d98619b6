// Binding inside a running program moves the calling thread alone. Threads that exist already keep the old
// mask: then the main thread's mask is a part of theirs.
#include <fmt/core.h>

#include <algorithm>

#include "base/cpu_list.hpp"
#include "tuner/doctor/doctor.hpp"

namespace zf {

std::vector<Finding> late_binding_findings(const Patient& patient) {
  std::vector<Finding> findings;
  for (const ProcessState& process : patient.after.processes) {
    if (patient.after.under_a_plan.contains(process.pid)) continue;  // exec binds early; verify looks closer
    const CpuSet& main = process.threads.front().cpus;
    const auto left_behind = [&](const ThreadState& thread) {
      return thread.cpus != main && thread.cpus.contains(main);
    };
    const auto first = std::find_if(process.threads.begin(), process.threads.end(), left_behind);
    if (first == process.threads.end() || !main.intersects(patient.cpus)) continue;
    const auto count = std::count_if(process.threads.begin(), process.threads.end(), left_behind);
    findings.push_back(
        {Severity::warning,
         fmt::format("{} (process {}) was bound late: its main thread to {}, while {} of its threads may "
                     "still run on {}",
                     process.name, process.pid, print(main), count, print(first->cpus)),
         fmt::format(
             "start it with zf-tune exec, which binds before there are threads; now: taskset -acp {} {}",
             print(main), process.pid)});
  }
  return findings;
}

}  // namespace zf
