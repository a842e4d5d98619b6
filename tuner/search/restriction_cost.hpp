// Measures what it costs to use only splits that a launcher can be told, against the free choice.
#pragma once

#include <functional>
#include <string>

#include "compare/difference.hpp"
#include "measure/meter.hpp"
#include "plan/period.hpp"

namespace zf {

/// Returns how much longer the period of `free` is than that of `kept`: negative if the restriction costs
/// something. Visits both in turn, four times each. Stops earlier, but after at least one visit each, once
/// the meter's clock has passed `deadline_ns` or `stop` returns true; nothing is known if a visit then has no
/// sample. Throws what the meter throws.
Difference restriction_cost(const Split& kept, const Split& free, const Schedule& schedule, Meter& meter,
                            Nanoseconds deadline_ns, const std::function<bool()>& stop);

/// Returns "Against this plan, the free choice, "pool 4, spread", is faster: -10.7 % (-11.4 to -10.0 %; minus
/// is faster)", or says that nothing is known. Pure.
std::string cost_in_words(const Difference& cost, double accuracy, const std::string& free_label);

}  // namespace zf
