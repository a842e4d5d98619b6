// What becomes of the variables by which OpenMP would undo the binding of a launch. Pure.
#pragma once

#include "base/enum_names.hpp"
#include "launch/launch.hpp"
#include "launch/launched_by.hpp"
#include "os/environment.hpp"

namespace zf {

/// What becomes of variables by which OpenMP binds the threads of the command again?
enum class OpenmpVariables {
  removed,  ///< they are taken out of its environment
  kept,
};

template <>
inline constexpr auto kEnumNames<OpenmpVariables> = std::to_array<EnumName<OpenmpVariables>>(
    {{OpenmpVariables::removed, "remove"}, {OpenmpVariables::kept, "keep"}});

/// Takes them out of the launch's environment, or keeps them, and adds notes that say so. One note for all
/// ranks of the node is enough, so rank 0 has it. Does nothing if the launch binds nothing, if the variables
/// agree with its CPUs (openmp_variables.hpp), or for bind(): OpenMP has read them already.
void settle_openmp(Launch& launch, OpenmpVariables choice, const Environment& environment,
                   LaunchedBy by = LaunchedBy::exec);

}  // namespace zf
