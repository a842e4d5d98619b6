// Measures what it costs to use only splits that a launcher can be told, against the free choice.
#pragma once

#include <functional>
#include <string>

#include "compare/difference.hpp"
#include "measure/meter.hpp"
#include "plan/period.hpp"

namespace zf {

/// Returns how much longer the period of `kept` is than that of `free`. Visits both in turn, four times each.
/// Stops earlier, but after at least one visit each, once the meter's clock has passed `deadline_ns` or
/// `stop` returns true; nothing is known if a visit then has no sample. Throws what the meter throws.
Difference restriction_cost(const Split& kept, const Split& free, const Schedule& schedule, Meter& meter,
                            Nanoseconds deadline_ns, const std::function<bool()>& stop);

/// Returns "A period is 12.0 % longer than with the free choice, "pool 4, spread" (95 % confidence: 11.1
/// to 12.9 %)", or says that they tie. Pure.
std::string cost_in_words(const Difference& cost, double tie, const std::string& free_label);

}  // namespace zf
