// What it costs to keep to the splits that a launcher can be told, measured against the free choice.
#pragma once

#include <functional>
#include <string>

#include "measure/meter.hpp"
#include "text/statistics.hpp"

namespace zf {

/// How much longer the period of `kept` is than that of `free`. Both are visited in turn, a few times; fewer
/// once the meter's clock has passed `deadline_ns` or `stop` says so, but at least once each. Throws what the
/// meter throws.
Difference restriction_cost(const Split& kept, const Split& free, int update_interval, Meter& meter,
                            Nanoseconds deadline_ns, const std::function<bool()>& stop);

/// "12.0 % longer per period than the free choice, pool 4, spread (95 % sure: 11.1 to 12.9 %)", or that they
/// tie. Pure.
std::string cost_in_words(const Difference& cost, double tie, const std::string& free_label);

}  // namespace zf
