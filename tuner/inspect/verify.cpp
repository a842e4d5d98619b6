#include "inspect/verify.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/cpu_list.hpp"
#include "base/text.hpp"
#include "plan/plan_check.hpp"
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
  using Json = nlohmann::ordered_json;
  Json document{{"processes", Json::array()}, {"drift", Json::array()}};
  for (const JobProcess& member : job) {
    Json memory = nullptr;
    if (member.memory) {
      memory = Json::object();
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
                                 {"tid", drift.tid == 0 ? Json(nullptr) : Json(drift.tid)},
                                 {"name", drift.name},
                                 {"what", drift.what}});
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace zf
