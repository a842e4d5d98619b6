// The kinds of split: how the pool's cores are taken from a home, and the splits that are always measured.
#pragma once

#include "base/enum_names.hpp"

namespace zf {

/// The way in which the pool's cores are taken from a home: one L3 group after the other, or evenly from all.
enum class Placement { compact, spread };

template <>
inline constexpr auto kEnumNames<Placement> =
    std::to_array<EnumName<Placement>>({{Placement::compact, "compact"}, {Placement::spread, "spread"}});

/// Splits that are always measured, because people use them.
enum class Control {
  none,
  unbound,  ///< both sides float over all CPUs that the ranks may use; measured, but never written as a plan
  half,     ///< ZenFlow's default, pt_reserved_cores_perc 0.5
  eighty_twenty,  ///< SuperOffload's default: 80 % of the cores run the optimizer
  shared,         ///< both sides have all cores of the home
};

template <>
inline constexpr auto kEnumNames<Control> = std::to_array<EnumName<Control>>({{Control::none, "none"},
                                                                              {Control::unbound, "unbound"},
                                                                              {Control::half, "half"},
                                                                              {Control::eighty_twenty,
                                                                               "eighty_twenty"},
                                                                              {Control::shared, "shared"}});

}  // namespace zf
