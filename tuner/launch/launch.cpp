#include "launch/launch.hpp"

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "launch/allocation_fit.hpp"
#include "launch/variables.hpp"
#include "launchers/local_rank.hpp"
#include "plan/thread_variables.hpp"
#include "text/command_line.hpp"

namespace zf {
namespace {

/// Returns the thread count that an outer zf-tune exec has set, perhaps for other CPUs; empty if there is
/// none.
std::string outer_threads(const Environment& environment) {
  const auto line = environment.get(kBindingVariable);
  if (!line) return {};
  try {
    const ProcessBinding outer = parse_binding(*line);
    return std::to_string(process_cpus(outer.rank, outer.framework).threads);
  } catch (const Error&) {
    return {};  // of another version
  }
}

/// Sets the numbers of threads. One note for all ranks of the node is enough, so rank 0 has it.
void set_thread_counts(Launch& launch, const ThreadCounts& counts) {
  for (const char* const name : kThreadVariables) launch.set.erase(name);
  launch.set.insert(counts.set.begin(), counts.set.end());
  if (!counts.note.empty() && (launch.rank == 0 || !counts.is_for_all_ranks))
    launch.notes.push_back(counts.note);
}

}  // namespace

Launch planned_launch(const ProcessBinding& binding, const EnvNumber& rank,
                      const std::filesystem::path& plan_path, const Allowed& allowed,
                      const Environment& environment, TorchrunsOne torchruns_one, LaunchedBy by) {
  const CpuSet& optimizer = binding.rank.optimizer.cpus;
  need_plan_applies_to_rank(binding.rank, allowed, by);
  const ProcessCpus process = process_cpus(binding.rank, binding.framework);
  Launch launch;
  launch.rank = rank.value;
  launch.rank_source = rank.variable;
  launch.cpus = process.cpus;
  launch.binding = binding;
  launch.binding->started_on = process.started_on;
  launch.mems = preferred_mems(binding.rank.optimizer);
  launch.set = variables_of(*launch.binding, plan_path);
  launch.set["ZF_RANK_FROM"] = launchers_rank(environment);
  launch.set[kAllowedVariable] =
      print(allowed.cpus);  // for ranks that are started inside: the job's, unbound
  if (const auto& threads = binding.rank.optimizer.threads) {
    if (rank.value == 0) {  // one note for all ranks of the node is enough
      launch.notes.push_back(
          format_text("neighbours share {}: no thread is pinned to a few of them, and the pool has {}",
                      print_cpus(optimizer), print_count(static_cast<std::size_t>(*threads), "thread")));
    }
  } else if (process.started_on == StartedOn::training) {
    launch.notes.push_back(
        format_text("{} {} kept for the optimizer process of the runtime (framework native)",
                    print_cpus(optimizer), optimizer.size() == 1 ? "is" : "are"));
  }
  set_thread_counts(
      launch, thread_counts(process.threads, outer_threads(environment), torchruns_one, environment, by));
  return launch;
}

Launch unbound_launch(const Error& error) {
  Launch unbound;
  unbound.notes.push_back(format_text("{}; going on, bound to nothing", error.what()));
  return unbound;
}

std::string describe(const Launch& launch, const std::vector<std::string>& command) {
  std::string text;
  if (!launch.rank_source.empty())
    text = format_text("# rank {} (from {})\n", launch.rank, launch.rank_source);
  for (const std::string& note : launch.notes) text += format_text("# {}\n", one_line(note));
  for (const std::string& name : launch.unset) text += format_text("unset {}\n", name);
  for (const auto& [name, value] : launch.set)
    text += format_text("export {}={}\n", name, shell_quoted(value));
  if (!launch.mems.empty()) text += format_text("# memory: preferred on {}\n", print_nodes(launch.mems));
  text += "exec";
  if (!launch.cpus.empty()) text += format_text(" taskset -c {}", print(launch.cpus));
  for (const std::string& word : command) text += format_text(" {}", shell_quoted(word));
  return text + "\n";
}

}  // namespace zf
