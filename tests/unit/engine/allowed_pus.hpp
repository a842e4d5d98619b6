// For tests: the PUs on which this thread may run.
#pragma once

#include <vector>

#include "base/id_set.hpp"
#include "os/affinity.hpp"

namespace zf {

inline std::vector<Pu> allowed_pus() {
  const CpuSet allowed = thread_affinity();
  return {allowed.begin(), allowed.end()};
}

}  // namespace zf
