#include "commands/job_warnings.hpp"

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "fit/workload_job.hpp"
#include "launchers/core_shortage.hpp"
#include "launchers/local_rank.hpp"
#include "os/memory.hpp"
#include "os/memory_limits.hpp"
#include "os/standard_streams.hpp"

namespace zf {

bool speaks_for_node(const Environment& environment) {
  try {
    const auto rank = local_rank(environment);
    return !rank || rank->value == 0;
  } catch (const Error&) {  // a variable that is no number: who needs the rank names it
    return true;
  }
}

void warn_of_few_cores(const Machine& machine, int ranks) {
  const auto shortage =
      core_shortage(static_cast<std::size_t>(ranks), allowed_cores(machine), machine.allowed);
  if (!shortage || shortage->impossible || !speaks_for_node(Environment::of_this_process())) return;
  print_stderr("warning: {}\n", one_line(in_words(*shortage)));
}

void warn_of_memory(const Workload& workload, StateFormat state, const Machine& machine,
                    const MachineSource& source) {
  if (!speaks_for_node(Environment::of_this_process())) return;
  if (const auto shortage = memory_shortage_here(workload, state, machine, source))
    print_stderr("warning: {}; {}\n", one_line(*shortage), memory_remedy(workload));
}

NodeLimits limits_here(const Machine& machine, const MachineSource& source) {
  if (!source.topology.empty()) return limits_of(machine, {});
  return limits_of(machine, read_memory_limits(source.sysroot, machine.allowed),
                   source.sysroot.is_this_machine() ? thread_memory_policy() : std::nullopt);
}

std::optional<std::string> memory_shortage_here(const Workload& workload, StateFormat state,
                                                const Machine& machine, const MachineSource& source) {
  try {
    return memory_shortage(workload, state, limits_here(machine, source));
  } catch (const Error&) {  // nothing is known of its memory
    return std::nullopt;
  }
}

std::string memory_remedy(const Workload& workload) {
  return format_text("zf-tune fit --params {} says what would help", workload.params);
}

}  // namespace zf
