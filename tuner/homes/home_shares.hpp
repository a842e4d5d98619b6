// How many cores of which domain each rank gets: homes_of() counts here first and names the cores later.
// Pure.
#pragma once

#include <optional>
#include <vector>

#include "homes/domains.hpp"
#include "homes/share.hpp"

namespace zf {

/// Returns one list of shares per rank: the rank's own domain first (the preferred one, else the one with
/// most of its cores), then the others from near to far. `preferences` holds the index of a domain, or
/// nothing, for every rank.
///
/// Every core is given to a rank, and ranks differ by at most one core. Ranks that prefer the same domain get
/// equal parts of it, and of what their node and their package have left. As many as possible of the ranks
/// without a preference lie inside one domain. The others are put together from what is left, in one package
/// if it has enough. Preconditions: at least one rank, and no more ranks than cores.
std::vector<std::vector<Share>> domain_shares(const std::vector<Domain>& domains,
                                              const std::vector<std::optional<int>>& preferences);

}  // namespace zf
