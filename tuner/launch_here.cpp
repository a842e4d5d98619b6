#include "tuner/launch_here.hpp"

#include <fmt/core.h>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "plan/plan_json.hpp"
#include "tuner/machine.hpp"
#include "tuner/plan_in_memory.hpp"
#include "tuner/retarget.hpp"

namespace zf {
namespace {

/// The plan itself where it fits this rank here; else fitted to what is allowed, held in memory, and said so.
Launch launch_by(Plan plan, LaunchRequest request, const Environment& environment) {
  const Allowed allowed = read_allowed(SysRoot());
  if (fits(plan, rank_of(plan, request, environment).value, allowed)) {
    return launch_of(plan, request, allowed, environment);
  }
  std::string note;
  try {
    const Machine machine = read_machine({});
    const Plan moved = retarget(plan, machine, moved_gpus(environment, machine.topology, plan));
    note = fmt::format("{}, made for CPUs {}, is fitted to the CPUs allowed here, {}",
                       request.plan_path.string(), print(plan.allocation.cpus), print(moved.allocation.cpus));
    request.plan_path = plan_in_memory(moved);
    plan = moved;
  } catch (const Error& error) {
    if (!request.force) throw;
    note = error.what();
  }
  Launch launch = launch_of(plan, request, allowed, environment);
  launch.notes.insert(launch.notes.begin(), note);
  return launch;
}

}  // namespace

Launch launch_here(const LaunchRequest& request, const Environment& environment) {
  try {
    return launch_by(load_plan(request.plan_path), request, environment);
  } catch (const Error& error) {
    if (!request.force) throw;
    Launch unbound;
    unbound.notes.push_back(fmt::format("{}; going on, bound to nothing", error.what()));
    return unbound;
  }
}

}  // namespace zf
