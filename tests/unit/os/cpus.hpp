// For tests: a set of CPUs from a list.
#pragma once

#include "base/cpu_list.hpp"
#include "base/id_set.hpp"

namespace zf {

inline CpuSet cpus(const char* list) { return parse_cpu_list(list, "test"); }

}  // namespace zf
