#include "launch/openmp_launch.hpp"

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "launchers/openmp_variables.hpp"

namespace zf {

void settle_openmp(Launch& launch, OpenmpVariables choice, const Environment& environment, LaunchedBy by) {
  if (launch.cpus.empty() || by == LaunchedBy::bind) return;
  const std::string keep = option_in_words(by, "omp", "keep");
  const std::vector<CpuSet> homes{launch.cpus};
  // One place may hold the home of this rank and not that of another: then rank 0 cannot speak for all.
  const bool same_for_all = !openmp_variables_to_unset(environment, {}).empty();
  if (choice == OpenmpVariables::kept) {
    for (const OpenmpBinding& found : openmp_bindings(environment, homes)) {
      if (launch.rank != 0 && same_for_all) break;
      launch.notes.push_back(format_text("{}={} is kept ({}): {}; this process is bound to {}",
                                         found.variable, found.value, keep, found.effect,
                                         print_cpus(launch.cpus)));
    }
    return;
  }
  launch.unset = openmp_variables_to_unset(environment, homes);
  if (launch.unset.empty() || (launch.rank != 0 && same_for_all)) return;
  std::vector<std::string> settings;
  for (const std::string& name : launch.unset)
    settings.push_back(format_text("{}={}", name, environment.get(name).value_or("")));
  const bool one = settings.size() == 1;
  launch.notes.push_back(
      format_text("{} {} taken out of the job's environment: by {} OpenMP would bind threads again, and not "
                  "to the plan's CPUs; {} keeps {}",
                  enumerated(settings), one ? "is" : "are", one ? "it" : "them", keep, one ? "it" : "them"));
}

}  // namespace zf
