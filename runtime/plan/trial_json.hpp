// A trial in JSON. Needs nlohmann_json, so no other header includes it.
#pragma once

#include "plan/evidence_json.hpp"
#include "plan/trial.hpp"

namespace zf {

Object print_trial(const Trial& trial);
/// Throws Error(usage) that names the field.
Trial read_trial(const Field& field);

}  // namespace zf
