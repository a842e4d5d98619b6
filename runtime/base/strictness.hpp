// How strictly a feature that the machine may refuse is wanted, as the worker's command line names it.
#pragma once

#include "base/enum_names.hpp"

namespace zf {

/// The reaction to a feature that the machine may refuse: do not ask for it, try it, or fail without it.
enum class Strictness { off, best_effort, required };

template <>
inline constexpr auto kEnumNames<Strictness> = std::to_array<EnumName<Strictness>>(
    {{Strictness::off, "no"}, {Strictness::best_effort, "try"}, {Strictness::required, "must"}});

}  // namespace zf
