// Others on the plan's CPUs: processes and devices.
#include <fmt/core.h>
#include <unistd.h>

#include "base/cpu_list.hpp"
#include "tuner/doctor/doctor.hpp"

namespace zf {
namespace {

constexpr double kBusyShare = 0.1;        // of one CPU: below it, anything that lives shows up
constexpr double kBusyInterrupts = 1000;  // per second: at some 5 us each, half a percent of a CPU
constexpr std::size_t kMostShown = 5;

}  // namespace

std::vector<Finding> busy_findings(const Patient& patient) {
  std::vector<Finding> findings;
  const auto ticks_per_s = static_cast<double>(::sysconf(_SC_CLK_TCK));
  for (const CpuTime& time : cpu_times(patient.before, patient.after, patient.cpus, ticks_per_s)) {
    if (time.share < kBusyShare || findings.size() == kMostShown) break;
    const bool planned = patient.after.under_a_plan.contains(time.pid);
    findings.push_back(
        {Severity::warning,
         fmt::format("{} (process {}{}) takes {:.0f} % of CPU {}", time.process, time.pid,
                     planned ? ", started by zf-tune exec" : "", 100 * time.share, time.cpu.os_index),
         fmt::format("end it, or move it away: taskset -acp CPUS {}", time.pid)});
  }
  return findings;
}

std::vector<Finding> interrupt_findings(const Patient& patient) {
  std::vector<Finding> findings;
  for (const InterruptRate& rate : interrupt_rates(patient.before, patient.after, patient.cpus)) {
    if (rate.per_s < kBusyInterrupts || findings.size() == kMostShown) break;
    findings.push_back(
        {Severity::warning,
         fmt::format("interrupt {} ({}) comes {:.0f} times a second on CPUs {}", rate.number, rate.device,
                     rate.per_s, print(rate.cpus)),
         fmt::format("send it to CPUs outside the plan: echo LIST > /proc/irq/{}/smp_affinity_list; "
                     "irqbalance needs IRQBALANCE_BANNED_CPULIST={}",
                     rate.number, print(patient.cpus))});
  }
  return findings;
}

}  // namespace zf
