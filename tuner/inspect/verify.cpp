#include "inspect/verify.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "os/same_file.hpp"
#include "plan/json_fields.hpp"
#include "plan/plan_json.hpp"

namespace zf {
namespace {

/// The name of zf-optimizer's thread that waits for the trainer's end. It runs nothing of a step.
constexpr std::string_view kWatchThread = "zf-trainer";

void add(std::vector<Drift>& drifts, const JobProcess& member, std::string what) {
  drifts.push_back({member.rank, member.process.pid, 0, member.process.name, std::move(what)});
}

/// Returns those of the CPUs that the process could still use.
CpuSet still_there(const CpuSet& cpus, const JobProcess& member) {
  return member.available.empty() ? cpus : cpus & member.available;
}

/// Returns "CPUs 7-8 of rank 0's pool are gone".
std::string gone_in_words(const CpuSet& gone, const JobProcess& member, const char* side) {
  return format_text("{} of rank {}'s {} {} gone", print_cpus(gone), member.rank, side,
                     gone.size() == 1 ? "is" : "are");
}

/// Finds threads of a zf-optimizer, or of a process that is confined to one side, that may run elsewhere.
void compare_threads(const JobProcess& member, const CpuSet& planned, std::vector<Drift>& drifts) {
  for (const ThreadState& thread : member.process.threads) {
    if (planned.contains(thread.cpus)) continue;
    drifts.push_back({member.rank, member.process.pid, thread.tid, thread.name,
                      format_text("may run on {}, outside {}", print(thread.cpus), print(planned))});
  }
}

/// Finds threads of a training process that have neither the home nor CPUs of the training side. `divided`:
/// parts of the home are no drift here, or they are reported already.
void compare_with_home(const JobProcess& member, const CpuSet& home, const CpuSet& training, bool divided,
                       std::vector<Drift>& drifts) {
  for (const ThreadState& thread : member.process.threads) {
    const bool inside = home.contains(thread.cpus);
    if (thread.cpus == home || training.contains(thread.cpus) || (inside && divided)) continue;
    const std::string cpus = print(thread.cpus);
    drifts.push_back(
        {member.rank, member.process.pid, thread.tid, thread.name,
         inside ? format_text("may run on {}, which is neither its home {} nor its training side {}", cpus,
                              print(home), print(training))
                : format_text("may run on {}, outside its home {}", cpus, print(home))});
  }
}

/// Finds threads of a pool that may not run on all CPUs which they share with neighbours: if these are busy,
/// the kernel cannot move them.
void compare_shared_pool(const JobProcess& member, const CpuSet& planned, std::vector<Drift>& drifts) {
  for (const ThreadState& thread : member.process.threads) {
    if (thread.cpus == planned || !planned.contains(thread.cpus)) continue;
    drifts.push_back({member.rank, member.process.pid, thread.tid, thread.name,
                      format_text("may run on {} only: threads on CPUs that neighbours share have all of {}",
                                  print(thread.cpus), print(planned))});
  }
}

/// Returns true if OpenMP has bound threads: a variable says so, or some run elsewhere in `whole` than the
/// main thread.
bool has_openmp_bound(const JobProcess& member, const CpuSet& whole) {
  const auto& threads = member.process.threads;
  return !member.openmp.empty() ||
         std::any_of(threads.begin(), threads.end(), [&](const ThreadState& thread) {
           return thread.cpus != whole && whole.contains(thread.cpus) &&
                  !threads.front().cpus.contains(thread.cpus);
         });
}

/// Returns true if a process's main thread may run only on a part of `whole`, and not because the user has
/// pinned a child: it is the first process of its rank, or OpenMP has bound it.
bool is_main_thread_narrowed(const JobProcess& member, const CpuSet& whole, bool is_first) {
  const CpuSet& main = member.process.threads.front().cpus;
  return main != whole && whole.contains(main) && (is_first || has_openmp_bound(member, whole));
}

/// Names a main thread that is narrowed, and by which variable OpenMP did that, if one is known.
void add_narrowed_main_thread(const JobProcess& member, const CpuSet& whole, std::vector<Drift>& drifts) {
  std::string what =
      format_text("has its main thread on {} only, not on {}: so have the data loaders that it starts",
                  print(member.process.threads.front().cpus), print(whole));
  if (!member.openmp.empty()) {
    what +=
        format_text("; OpenMP binds it by {}, which was set after zf-tune exec or kept: unset it in the job",
                    enumerated(member.openmp));
  }
  add(drifts, member, std::move(what));
}

/// Finds CPUs of the pool without a pinned thread: they make the step slower, and no thread's mask shows it.
void compare_pool(const JobProcess& member, const CpuSet& planned, std::vector<Drift>& drifts) {
  CpuSet pinned;
  for (const ThreadState& thread : member.process.threads) {
    if (thread.cpus.size() == 1) pinned |= thread.cpus;
  }
  const CpuSet empty = planned - pinned;
  if (empty.empty()) return;
  add(drifts, member, format_text("has no thread of its own on {}", print(empty)));
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
  add(drifts, member,
      format_text("has {} of its {} on {}, outside {}", print_bytes(stray), print_bytes(all),
                  print_nodes(nodes), print_nodes(planned)));
}

/// Compares a zf-optimizer with the planned pool. If CPUs of the pool are gone, its threads had to leave
/// them, and wherever they run now is not the binding's fault.
void compare_optimizer(const JobProcess& member, const OptimizerSide& side, std::vector<Drift>& drifts) {
  const CpuSet& pool = side.cpus;
  const CpuSet gone = pool - still_there(pool, member);
  if (gone.empty()) {
    compare_threads(member, pool, drifts);
    side.threads ? compare_shared_pool(member, pool, drifts) : compare_pool(member, pool, drifts);
    return;
  }
  const auto& threads = member.process.threads;
  const auto count = std::count_if(threads.begin(), threads.end(),
                                   [](const ThreadState& thread) { return thread.name != kWatchThread; });
  add(drifts, member,
      format_text("is degraded: {}; its {} on {}", gone_in_words(gone, member, "pool"),
                  count == 1 ? std::string("only thread runs") : print_count(count, "thread") + " run",
                  print(cpus_of_threads(member.process))));
}

/// Returns true if the main thread is narrowed.
bool compare_trainer(const JobProcess& member, const ProcessBinding& binding, const HomeUse& use,
                     bool is_first, std::vector<Drift>& drifts) {
  const CpuSet& training = binding.rank.training.cpus;
  const CpuSet training_left = still_there(training, member);
  if (const CpuSet gone = training - training_left; !gone.empty())
    add(drifts, member, "is degraded: " + gone_in_words(gone, member, "training side"));
  if (training_left.empty()) return false;
  if (is_confined_to_training(binding)) {
    const bool narrowed = is_main_thread_narrowed(member, training_left, is_first);
    if (narrowed) add_narrowed_main_thread(member, training_left, drifts);
    compare_threads(member, training_left, drifts);
    return narrowed;
  }

  const bool divided = std::find(use.divided.begin(), use.divided.end(), &member) != use.divided.end();
  if (divided) add(drifts, member, division_in_words(member, binding, use));
  const CpuSet home_left = still_there(binding.rank.home.cpus, member);
  const bool by_our_runtime = member.process.threads.front().cpus == training_left &&
                              (use.has_optimizer || !has_openmp_bound(member, home_left));
  const bool narrowed =
      !divided && !use.by_plan && !by_our_runtime && is_main_thread_narrowed(member, home_left, is_first);
  if (narrowed) add_narrowed_main_thread(member, home_left, drifts);
  compare_with_home(member, home_left, training_left, divided || narrowed || use.by_plan, drifts);
  return narrowed;
}

std::vector<Drift> drift_of(const std::vector<BoundProcess>& processes) {
  std::vector<Drift> drifts;
  for (const RankProcesses& rank : ranks_of(processes)) {
    for (Drift& drift : drift_of(rank)) drifts.push_back(std::move(drift));
  }
  return drifts;
}

}  // namespace

std::vector<Drift> drift_of(const RankProcesses& rank) {
  const RankBinding& binding = rank.binding.rank;
  const HomeUse use = home_use(rank);
  std::vector<Drift> drifts;
  bool narrowed = false;
  for (const JobProcess* member : rank.members) {
    if (member->side == Side::optimizer) {
      compare_optimizer(*member, binding.optimizer, drifts);
    } else {
      narrowed |= compare_trainer(*member, rank.binding, use, member == rank.members.front(), drifts);
    }
    NodeSet nodes = binding.optimizer.mems;
    if (rank.binding.kept && !nodes.empty()) nodes |= rank.binding.kept->nodes;
    compare_memory(*member, nodes, drifts);
  }
  const CpuSet unused = still_there(use.unused, *rank.members.front());
  // Where a thread has other CPUs than the training side's, its own line says what is wrong.
  const bool confined = binding.training.cpus.contains(use.used);
  if (!use.has_optimizer && confined && !narrowed && use.divided.empty() && !unused.empty()) {
    drifts.push_back(
        {rank.members.front()->rank, 0, 0, "",
         format_text("no optimizer process runs, so no process uses {} of its home", print_cpus(unused))});
  }
  return drifts;
}

std::vector<JobProcess> find_descendants(const SysRoot& sysroot, int pid, std::optional<int> rank) {
  if (!read_process(sysroot, pid)) {
    throw Error(Exit::usage, format_text("zf-tune verify: --pid {}: there is no such process", pid));
  }
  auto job = processes_below(sysroot, pid, rank);
  if (!job.empty()) return job;
  if (!environment_of(sysroot, pid)) {
    throw Error(Exit::runtime_error,
                format_text("zf-tune verify: --pid {0}: /proc/{0}/environ cannot be read: "
                            "it may be another user's",
                            pid),
                "look as the user of the job, or as root");
  }
  throw Error(Exit::usage,
              format_text("zf-tune verify: --pid {}: zf-tune exec started neither it nor a child", pid),
              "give its --rank and the plan, or the trainer's own PID");
}

std::vector<JobProcess> find_job(const SysRoot& sysroot, const std::optional<std::filesystem::path>& plan) {
  const auto slurm_job = Environment::of_this_process().get("SLURM_JOB_ID");
  auto job = processes_of_job(sysroot, slurm_job, plan);
  if (!job.empty()) return job;
  throw Error(Exit::runtime_error,
              format_text("zf-tune verify: --job: zf-tune exec has started nothing here{}{}",
                          slurm_job ? " in job " + *slurm_job : "", plan ? " under " + plan->string() : ""),
              "start the job with zf-tune exec, and look as the same user");
}

std::vector<Drift> verify_job(const std::vector<JobProcess>& job,
                              const std::optional<std::filesystem::path>& plan) {
  const auto named = plan ? std::optional(load_plan(*plan)) : std::nullopt;
  std::vector<Drift> unreadable;
  std::vector<BoundProcess> processes;
  for (const JobProcess& member : job) {
    const bool by_named =
        named && (!same_file(member.plan, *plan) || (!member.binding && member.binding_fault.empty()));
    if (by_named) {
      processes.push_back({&member, planned_binding(*named, member.rank)});
      continue;
    }
    try {
      processes.push_back({&member, binding_in_force(member)});
    } catch (const Error& error) {
      add(unreadable, member, format_text("cannot be held against its plan: {}", error.what()));
    }
  }
  auto drifts = drift_of(processes);
  drifts.insert(drifts.end(), unreadable.begin(), unreadable.end());
  return drifts;
}

std::string verification_text(const std::vector<JobProcess>& job, const std::vector<Drift>& drifts) {
  std::string text;
  for (const JobProcess& member : job) {
    const ProcessState& process = member.process;
    text += format_text("rank {}: {} {} (process {}): {} on {}", member.rank, name_of(member.side),
                        one_line(process.name), process.pid, print_count(process.threads.size(), "thread"),
                        print(cpus_of_threads(process)));
    if (!member.memory) text += ", memory unknown";
    for (const auto& [node, bytes] : member.memory.value_or(MemoryByNode())) {
      text += format_text(", {} on node {}", print_bytes(bytes), node.os_index);
    }
    text += "\n";
  }
  for (const Drift& drift : drifts) {
    text += format_text("rank {}: drift: ", drift.rank);
    if (drift.pid != 0) {
      text += format_text("process {}{} ({}) ", drift.pid,
                          drift.tid == 0 ? "" : format_text(", thread {}", drift.tid), one_line(drift.name));
    }
    text += one_line(drift.what) + "\n";
  }
  return text + (drifts.empty() ? "all as planned\n" : "");
}

std::string verification_json(const std::vector<JobProcess>& job, const std::vector<Drift>& drifts,
                              const std::optional<WatchedMoves>& watched) {
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
                                 {"pid", drift.pid == 0 ? Object(nullptr) : Object(drift.pid)},
                                 {"tid", drift.tid == 0 ? Object(nullptr) : Object(drift.tid)},
                                 {"name", drift.name},
                                 {"what", drift.what}});
  }
  if (watched) document["watched"] = to_json(*watched);
  return print_json(document);
}

}  // namespace zf
