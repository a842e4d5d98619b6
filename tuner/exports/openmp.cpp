// One place that holds all training CPUs of the rank.
//
// A place per CPU would be another plan: libgomp takes OMP_PLACES for an order to bind (OMP_PROC_BIND is then
// true by default) and puts the program's first thread on the first place as soon as it is loaded. Every
// thread that a Python trainer starts later inherits that mask: the data loaders, autograd and CUDA's helpers
// would share one CPU (seen with GCC 12). In one place nothing is lost but the pinning of single threads.
#include <fmt/core.h>

#include "tuner/exports/export.hpp"

namespace zf {
namespace {

/// "{0,4:8}": 0, and the eight from 4 on.
std::string place_of(const CpuSet& cpus) {
  std::string place;
  for (auto at = cpus.begin(); at != cpus.end();) {
    const int first = at->os_index;
    int count = 0;
    while (at != cpus.end() && at->os_index == first + count) ++at, ++count;
    place += fmt::format("{}{}", place.empty() ? "" : ",", first);
    if (count > 1) place += fmt::format(":{}", count);
  }
  return "{" + place + "}";
}

}  // namespace

Export openmp_export(const ExportInput& input) {
  const TrainingSide& training = input.ranks.front().training;
  Export result;
  result.text = fmt::format("export OMP_NUM_THREADS={}\nexport OMP_PLACES='{}'\n", training.threads,
                            place_of(training.cpus));
  result.notes = {
      "all threads share one place: a Python trainer whose first thread is bound to a single CPU hands that "
      "on "
      "to its data loaders. Threads that OpenMP does not start are bound by zf-tune exec only"};
  return result;
}

}  // namespace zf
