#include "commands/memory_warning.hpp"

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "commands/few_cores.hpp"
#include "fit/workload_job.hpp"
#include "os/environment.hpp"
#include "os/memory.hpp"
#include "os/memory_limits.hpp"
#include "os/standard_streams.hpp"

namespace zf {

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

void warn_of_memory(const Workload& workload, StateFormat state, const Machine& machine,
                    const MachineSource& source) {
  if (!speaks_for_node(Environment::of_this_process())) return;
  if (const auto shortage = memory_shortage_here(workload, state, machine, source))
    print_stderr("warning: {}; {}\n", one_line(*shortage), memory_remedy(workload));
}

}  // namespace zf
