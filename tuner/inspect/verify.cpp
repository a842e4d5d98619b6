#include "inspect/verify.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/json_fields.hpp"
#include "plan/plan_check.hpp"
#include "plan/plan_json.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

const char* name_of(Side side) { return side == Side::trainer ? "trainer" : "optimizer"; }

/// Returns the CPUs that any of its threads may run on.
CpuSet cpus_of_threads(const ProcessState& process) {
  CpuSet cpus;
  for (const ThreadState& thread : process.threads) cpus |= thread.cpus;
  return cpus;
}

void compare_threads(const JobProcess& member, const CpuSet& planned, std::vector<Drift>& drifts) {
  for (const ThreadState& thread : member.process.threads) {
    if (planned.contains(thread.cpus)) continue;
    drifts.push_back({member.rank, member.process.pid, thread.tid, thread.name,
                      fmt::format("may run on {}, outside {}", print(thread.cpus), print(planned))});
  }
}

/// Finds CPUs of the pool without a pinned thread: they make the step slower, and no thread's mask shows it.
void compare_pool(const JobProcess& member, const CpuSet& planned, std::vector<Drift>& drifts) {
  CpuSet pinned;
  for (const ThreadState& thread : member.process.threads) {
    if (thread.cpus.size() == 1) pinned |= thread.cpus;
  }
  const CpuSet empty = planned - pinned;
  if (empty.empty()) return;
  drifts.push_back({member.rank, member.process.pid, 0, member.process.name,
                    fmt::format("has no thread of its own on {}", print(empty))});
}

void compare_memory(const JobProcess& member, const NodeSet& planned, std::vector<Drift>& drifts) {
  if (!member.memory || planned.empty()) return;
  std::uint64_t all = 0;
  std::uint64_t stray = 0;
  NodeSet nodes;
  for (const auto& [node, bytes] : *member.memory) {
    all += bytes;
    if (planned.contains(node)) continue;
    stray += bytes;
    nodes.insert(node);
  }
  if (stray < kStrayMemoryBytes || static_cast<double>(stray) < kStrayMemoryShare * static_cast<double>(all))
    return;
  drifts.push_back({member.rank, member.process.pid, 0, member.process.name,
                    fmt::format("has {} of its {} on {}, outside {}", print_bytes(stray), print_bytes(all),
                                print_nodes(nodes), print_nodes(planned))});
}

}  // namespace

std::vector<Drift> drift_of(const Plan& plan, const std::vector<JobProcess>& job) {
  std::vector<Drift> drifts;
  for (const JobProcess& member : job) {
    const RankBinding& binding = binding_of(plan, member.rank);
    const bool optimizer = member.side == Side::optimizer;
    compare_threads(member, optimizer ? binding.optimizer.cpus : binding.training.cpus, drifts);
    if (optimizer) compare_pool(member, binding.optimizer.cpus, drifts);
    compare_memory(member, binding.optimizer.mems, drifts);
  }
  return drifts;
}

std::vector<JobProcess> find_descendants(const SysRoot& sysroot, int pid, std::optional<int> rank) {
  if (!read_process(sysroot, pid)) {
    throw Error(Exit::usage, fmt::format("zf-tune verify: --pid {}: there is no such process", pid));
  }
  auto job = processes_below(sysroot, pid, rank);
  if (!job.empty()) return job;
  if (!environment_of(sysroot, pid)) {
    throw Error(Exit::runtime_error,
                fmt::format("zf-tune verify: --pid {0}: /proc/{0}/environ cannot be read: it may be another "
                            "user's",
                            pid),
                "look as the user whose job it is, or as root");
  }
  throw Error(Exit::usage,
              fmt::format("zf-tune verify: --pid {}: zf-tune exec started neither it nor a child", pid),
              "give its --rank and the plan, or the trainer's own PID");
}

std::vector<JobProcess> find_job(const SysRoot& sysroot, const std::optional<std::filesystem::path>& plan) {
  const auto slurm_job = Environment::of_this_process().get("SLURM_JOB_ID");
  auto job = processes_of_job(sysroot, slurm_job, plan);
  if (!job.empty()) return job;
  throw Error(Exit::runtime_error,
              fmt::format("zf-tune verify: --job: zf-tune exec has started nothing here{}{}",
                          slurm_job ? " in job " + *slurm_job : "", plan ? " under " + plan->string() : ""),
              "start the job with zf-tune exec, and look as the same user");
}

std::vector<Drift> verify_job(const std::vector<JobProcess>& job,
                              const std::optional<std::filesystem::path>& plan) {
  if (plan) return drift_of(load_plan(*plan), job);
  std::vector<Drift> drifts;
  for (const JobProcess& member : job) {
    try {
      const std::string own = member.plan.empty() ? "plan.json" : member.plan.string();
      for (Drift& drift : drift_of(load_plan(own), {member})) drifts.push_back(std::move(drift));
    } catch (const Error& error) {
      drifts.push_back({member.rank, member.process.pid, 0, member.process.name,
                        fmt::format("cannot be held against its plan: {}", error.what())});
    }
  }
  return drifts;
}

std::string verification_text(const std::vector<JobProcess>& job, const std::vector<Drift>& drifts) {
  std::string text;
  for (const JobProcess& member : job) {
    const ProcessState& process = member.process;
    text += fmt::format("rank {}: {} {} (process {}): {} on {}", member.rank, name_of(member.side),
                        process.name, process.pid, print_count(process.threads.size(), "thread"),
                        print(cpus_of_threads(process)));
    if (!member.memory) text += ", memory unknown";
    for (const auto& [node, bytes] : member.memory.value_or(MemoryByNode())) {
      text += fmt::format(", {} on node {}", print_bytes(bytes), node.os_index);
    }
    text += "\n";
  }
  for (const Drift& drift : drifts) {
    text += fmt::format("rank {}: drift: process {}{} ({}) {}\n", drift.rank, drift.pid,
                        drift.tid == 0 ? "" : fmt::format(", thread {}", drift.tid), drift.name, drift.what);
  }
  return strip_control_chars(text + (drifts.empty() ? "all as planned\n" : ""));
}

std::string verification_json(const std::vector<JobProcess>& job, const std::vector<Drift>& drifts) {
  Object document{{"processes", Object::array()}, {"drift", Object::array()}};
  for (const JobProcess& member : job) {
    Object memory = nullptr;
    if (member.memory) {
      memory = Object::object();
      for (const auto& [node, bytes] : *member.memory) memory[std::to_string(node.os_index)] = bytes;
    }
    document["processes"].push_back({{"rank", member.rank},
                                     {"side", name_of(member.side)},
                                     {"pid", member.process.pid},
                                     {"name", member.process.name},
                                     {"threads", member.process.threads.size()},
                                     {"cpus", print(cpus_of_threads(member.process))},
                                     {"memory_bytes", memory}});
  }
  for (const Drift& drift : drifts) {
    document["drift"].push_back({{"rank", drift.rank},
                                 {"pid", drift.pid},
                                 {"tid", drift.tid == 0 ? Object(nullptr) : Object(drift.tid)},
                                 {"name", drift.name},
                                 {"what", drift.what}});
  }
  return print_json(document);
}

}  // namespace zf
