#include "launch/launch.hpp"

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "launch/allocation_fit.hpp"
#include "launch/variables.hpp"
#include "launchers/local_rank.hpp"
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

/// Keeps a thread count that the user has set, and adds a note if it differs from the plan's.
void keep_user_setting(Launch& launch, const Environment& environment, const std::string& name) {
  const auto by_user = environment.get(name);
  if (!by_user) return;
  const std::string& by_plan = launch.set.at(name);
  if (*by_user == outer_threads(environment)) return;
  if (*by_user != by_plan) {
    launch.notes.push_back(
        format_text("{}={} is set already and is kept; the plan has {}", name, *by_user, by_plan));
  }
  launch.set.erase(name);
}

}  // namespace

Launch planned_launch(const ProcessBinding& binding, const EnvNumber& rank,
                      const std::filesystem::path& plan_path, const Allowed& allowed,
                      const Environment& environment) {
  const CpuSet& optimizer = binding.rank.optimizer.cpus;
  need_plan_applies_to_rank(binding.rank, allowed);
  const ProcessCpus process = process_cpus(binding.rank, binding.framework);
  Launch launch;
  launch.rank = rank.value;
  launch.rank_source = rank.variable;
  launch.cpus = process.cpus;
  launch.binding = binding;
  launch.binding->started_on = process.started_on;
  launch.mems = binding.rank.optimizer.mems;
  launch.set = variables_of(*launch.binding, plan_path);
  launch.set["ZF_RANK_FROM"] = launchers_rank(environment);
  if (process.started_on == StartedOn::training) {
    launch.notes.push_back(
        format_text("{} {} kept for the optimizer process of the runtime (framework native)",
                    print_cpus(optimizer), optimizer.size() == 1 ? "is" : "are"));
  }
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"})
    keep_user_setting(launch, environment, name);
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
  for (const auto& [name, value] : launch.set)
    text += format_text("export {}={}\n", name, shell_quoted(value));
  if (!launch.mems.empty()) text += format_text("# memory: preferred on {}\n", print_nodes(launch.mems));
  text += "exec";
  if (!launch.cpus.empty()) text += format_text(" taskset -c {}", print(launch.cpus));
  for (const std::string& word : command) text += format_text(" {}", shell_quoted(word));
  return text + "\n";
}

}  // namespace zf
