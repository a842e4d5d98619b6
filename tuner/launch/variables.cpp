#include "launch/variables.hpp"

#include "base/cpu_list.hpp"
#include "plan/thread_variables.hpp"

namespace zf {

std::map<std::string, std::string> variables_of(const ProcessBinding& binding,
                                                const std::filesystem::path& plan_path) {
  std::map<std::string, std::string> variables{{"ZF_PLAN", plan_path.string()},
                                               {"ZF_RANK", std::to_string(binding.rank.rank)},
                                               {"ZF_OPTIMIZER_CPUS", print(binding.rank.optimizer.cpus)},
                                               {kBindingVariable, print_binding(binding)}};
  for (const char* const name : kThreadVariables)
    variables[name] = std::to_string(process_cpus(binding.rank, binding.framework).threads);
  return variables;
}

}  // namespace zf
