// The environment variables by which an OpenMP runtime binds its threads, and so undoes another binding.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "base/id_set.hpp"
#include "os/environment.hpp"

namespace zf {

/// A variable that binds threads.
struct OpenmpBinding {
  std::string variable;
  std::string value;
  std::string effect;  ///< what the runtime does by it: a clause
};

/// Returns the variables by which OpenMP would bind the threads of a process that has one of these homes;
/// empty if none does. These bind nothing:
/// - OMP_PROC_BIND=false, which also switches OMP_PLACES and GOMP_CPU_AFFINITY off.
/// - OMP_PLACES with one place that holds a whole home: runtimes cut a place to the mask of the process. If
///   `homes` is empty, any single place will do.
/// - KMP_AFFINITY without a type, or of type none or disabled. Only Intel's and LLVM's runtimes read it.
std::vector<OpenmpBinding> openmp_bindings(const Environment& environment, const std::vector<CpuSet>& homes);

/// Returns the variables that must be taken out so that OpenMP binds nothing; empty if it binds nothing.
/// OMP_PLACES alone binds as OMP_PROC_BIND does, so all that are set go together. What switches binding off
/// stays.
std::vector<std::string> openmp_variables_to_unset(const Environment& environment,
                                                   const std::vector<CpuSet>& homes);

/// Returns true if KMP_AFFINITY has a type that binds threads, among its modifiers and numbers.
bool kmp_affinity_binds(const std::string& affinity);

}  // namespace zf
