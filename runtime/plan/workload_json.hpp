// Reads workloads from JSON, for the plan and for workload files.
#pragma once

#include "plan/json_fields.hpp"
#include "plan/workload.hpp"

namespace zf {

/// Reads the fields of a workload from an object that may have others; `absent` is the mode of one that says
/// none. Precondition: the object has the keys. Throws Error(usage) that names the field.
Workload read_workload_fields(const Field& field, Mode absent);

}  // namespace zf
