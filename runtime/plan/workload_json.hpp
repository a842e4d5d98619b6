// Workloads in JSON, for the plan and for workload files. It needs nlohmann_json, so headers that others use
// do not include it.
#pragma once

#include "plan/evidence_json.hpp"
#include "plan/workload.hpp"

namespace zf {

Object print_workload(const Workload& workload);

/// Reads the fields of a workload from an object that may have others. Precondition: object() was called with
/// them. Throws Error(usage) that names the field.
Workload read_workload_fields(const Field& field);

}  // namespace zf
