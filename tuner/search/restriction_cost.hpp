// Measures what it costs to use only splits that a launcher can be told, against the free choice.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "compare/difference.hpp"
#include "measure/meter.hpp"
#include "plan/period.hpp"

namespace zf {

/// What a restriction costs.
struct RestrictionCost {
  bool is_free_choice = false;            ///< nothing: the plan's split is also the free choice
  std::string free_label = {};            ///< of the free choice
  std::optional<Difference> longer = {};  ///< by how much the free choice takes longer; absent: not measured
  std::string failure = {};               ///< why it was not measured, if a measurement failed
};

/// Returns how much longer the period of `free` is than that of `kept`: negative if the restriction costs
/// something. Visits both in turn, four times each. Stops earlier, but after at least one visit each, once
/// the meter's clock has passed `deadline_ns` or `stop` returns true. Returns nothing if a visit then has no
/// sample. Throws what the meter throws.
std::optional<Difference> restriction_cost(const Split& kept, const Split& free, const Schedule& schedule,
                                           Meter& meter, Nanoseconds deadline_ns,
                                           const std::function<bool()>& stop);

}  // namespace zf
