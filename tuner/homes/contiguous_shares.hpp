// Homes as neighbouring cores: cuts the topological order of all cores into one run per rank. Pure.
#pragma once

#include <optional>
#include <vector>

#include "homes/domains.hpp"
#include "homes/share.hpp"

namespace zf {

/// The sizes that runs may have.
struct RunSizes {
  int least = 1;
  int most = 1;
};

/// Returns the shares of one run of neighbouring cores per rank, in the order of the ranks' preferred
/// domains. It cuts where most cores are near their ranks' places, then where the runs touch the fewest NUMA
/// nodes, packages and L3 groups, and then where they are most alike in size. The worst run counts first.
/// Returns nothing if no runs of these sizes use every core.
std::optional<std::vector<std::vector<Share>>> contiguous_shares(
    const Domains& domains, const std::vector<std::optional<int>>& preferences, RunSizes sizes);

}  // namespace zf
