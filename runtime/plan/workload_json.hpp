// Workloads in JSON, for the plan and for workload files. Needs nlohmann_json, so no other header includes
// it.
#pragma once

#include "plan/evidence_json.hpp"
#include "plan/workload.hpp"

namespace zf {

Object print_workload(const Workload& workload);

/// The fields of a workload, of an object that may have others. Precondition: object() was called with them.
/// Throws Error(usage) that names the field.
Workload read_workload_fields(const Field& field);

}  // namespace zf
