// Homes that a launcher gives to the ranks of a plan, or why it gives none.
#pragma once

#include <string>
#include <vector>

#include "base/id_set.hpp"

namespace zf {

struct LauncherHomes {
  std::string launcher;            ///< "hwloc-distrib"
  std::vector<CpuSet> homes = {};  ///< by rank; empty: see `refusal`
  std::string refusal = {};        ///< why it gives no homes, as a sentence without its full stop
};

}  // namespace zf
