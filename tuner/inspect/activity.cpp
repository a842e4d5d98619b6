#include "inspect/activity.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include "inspect/processes.hpp"
#include "os/same_file.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

double seconds_between(const ActivitySample& before, const ActivitySample& after) {
  return static_cast<double>(after.at_ns - before.at_ns) / static_cast<double>(kSecondNs);
}

/// Reads the title line "           CPU0       CPU3". The columns are the online CPUs, which may have gaps.
std::vector<Pu> columns_of(const std::string& title) {
  std::vector<Pu> columns;
  std::istringstream words(title);
  for (std::string word; words >> word;) {
    if (!word.starts_with("CPU")) continue;
    if (const auto cpu = parse_number<int>(word.substr(3))) columns.push_back(Pu{*cpu});
  }
  return columns;
}

std::map<int, Interrupts> interrupts_of(const std::string& text) {
  std::map<int, Interrupts> all;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  const std::vector<Pu> columns = columns_of(line);
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    int number = 0;
    char colon = 0;
    if (!(words >> number >> colon) || colon != ':') continue;
    Interrupts& interrupts = all[number];
    for (const Pu cpu : columns) {
      std::uint64_t count = 0;
      if (words >> count) interrupts.counts[cpu] = count;
    }
    words.clear();
    for (std::string word; words >> word;) interrupts.device = word;
  }
  return all;
}

/// Returns true if a process with this environment, which zf-tune exec started, belongs to the job.
bool belongs_to(const OwnJob& own, const Environment& environment) {
  const auto job = environment.get("SLURM_JOB_ID");
  if (own.slurm_job && job) return own.slurm_job == job;
  const auto plan = environment.get("ZF_PLAN");
  return own.plan && plan && same_file(*own.plan, *plan);
}

}  // namespace

ActivitySample sample_activity(const SysRoot& sysroot, int self, const OwnJob& own) {
  ActivitySample sample;
  for (const int pid : process_ids(sysroot)) {
    if (pid == self) continue;
    const auto environment = environment_of(sysroot, pid);
    const bool under_a_plan = environment && environment->get("ZF_RANK");
    if (under_a_plan && belongs_to(own, *environment)) continue;
    auto process = read_process(sysroot, pid);
    if (!process) continue;
    sample.processes.push_back(std::move(*process));
    if (under_a_plan) sample.under_a_plan.insert(pid);
  }
  sample.interrupts = interrupts_of(sysroot.read("/proc/interrupts").value_or(""));
  sample.at_ns = now_ns();
  return sample;
}

std::vector<CpuTime> cpu_times(const ActivitySample& before, const ActivitySample& after, const CpuSet& cpus,
                               double ticks_per_s) {
  std::map<int, std::uint64_t> ticks_before;
  for (const ProcessState& process : before.processes) {
    for (const ThreadState& thread : process.threads) ticks_before[thread.tid] = thread.ticks;
  }
  const double interval_ticks = seconds_between(before, after) * ticks_per_s;
  std::vector<CpuTime> times;
  for (const ProcessState& process : after.processes) {
    std::map<Pu, double> by_cpu;
    for (const ThreadState& thread : process.threads) {
      const auto known = ticks_before.find(thread.tid);
      if (known == ticks_before.end() || thread.ticks <= known->second || !cpus.contains(thread.last_cpu))
        continue;
      by_cpu[thread.last_cpu] += static_cast<double>(thread.ticks - known->second) / interval_ticks;
    }
    for (const auto& [cpu, share] : by_cpu) times.push_back({process.name, process.pid, cpu, share});
  }
  std::stable_sort(times.begin(), times.end(),
                   [](const CpuTime& a, const CpuTime& b) { return a.share > b.share; });
  return times;
}

std::vector<InterruptRate> interrupt_rates(const ActivitySample& before, const ActivitySample& after,
                                           const CpuSet& cpus) {
  std::vector<InterruptRate> rates;
  for (const auto& [number, interrupts] : after.interrupts) {
    const auto earlier = before.interrupts.find(number);
    if (earlier == before.interrupts.end()) continue;
    InterruptRate rate{number, interrupts.device, {}, 0};
    for (const auto& [cpu, count] : interrupts.counts) {
      const auto known = earlier->second.counts.find(cpu);
      if (!cpus.contains(cpu) || known == earlier->second.counts.end() || count <= known->second) continue;
      rate.cpus.insert(cpu);
      rate.per_s += static_cast<double>(count - known->second) / seconds_between(before, after);
    }
    if (!rate.cpus.empty()) rates.push_back(std::move(rate));
  }
  std::stable_sort(rates.begin(), rates.end(),
                   [](const InterruptRate& a, const InterruptRate& b) { return a.per_s > b.per_s; });
  return rates;
}

}  // namespace zf
