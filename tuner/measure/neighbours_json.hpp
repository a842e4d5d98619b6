// The neighbours of a measurement in the documents of --format json.
#pragma once

#include <vector>

#include "measure/disturbance.hpp"
#include "plan/json_fields.hpp"

namespace zf {

/// Returns [{"process", "pid", "cpus"}].
Object neighbours_json(const std::vector<Neighbour>& neighbours);

}  // namespace zf
