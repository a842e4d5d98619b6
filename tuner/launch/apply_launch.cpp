#include "launch/apply_launch.hpp"

#include <cstdlib>

#include "base/error.hpp"
#include "base/format.hpp"
#include "os/affinity.hpp"
#include "os/memory.hpp"

namespace zf {

void apply_launch(Launch& launch, bool force) {
  if (!launch.cpus.empty()) {
    try {
      bind_this_thread(launch.cpus);
    } catch (const Error& error) {
      if (!force)
        throw Error(error.exit(), error.what(),
                    "nothing was started; --force starts the command without this binding");
      launch.notes.push_back(format_text("{}; going on without this binding", error.what()));
      if (launch.binding) {
        launch.binding->started_on = StartedOn::nothing;
        launch.set[kBindingVariable] = print_binding(*launch.binding);
      }
    }
  }
  if (!launch.mems.empty()) {
    if (const PolicyRefusal refusal = set_thread_memory_policy(MemoryPolicy::preferred, launch.mems)) {
      launch.notes.push_back(format_text(
          "the memory policy is not set ({}): a page goes to the node of the CPU that touches it first",
          *refusal));
    }
  }
  for (const std::string& name : launch.unset)
    checked(::unsetenv(name.c_str()), format_text("unsetenv {}", name));
  for (const auto& [name, value] : launch.set) {
    checked(::setenv(name.c_str(), value.c_str(), 1), format_text("setenv {}", name));
  }
}

}  // namespace zf
