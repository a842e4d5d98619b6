#include "commands/few_cores.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "launchers/core_shortage.hpp"
#include "launchers/local_rank.hpp"
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

}  // namespace zf
