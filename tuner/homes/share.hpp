// A rank's part of a domain, and the order of these parts. Pure.
#pragma once

#include <optional>
#include <vector>

#include "homes/domains.hpp"

namespace zf {

/// A rank's share of one domain.
struct Share {
  int domain = 0;  ///< index into Domains::all
  int cores = 0;
  bool operator==(const Share&) const = default;
};

/// Sorts a rank's shares: the preferred domain first, else the one with most of its cores, then from near to
/// far.
void sort_near_to_far(const std::vector<Domain>& domains, std::optional<int> preference,
                      std::vector<Share>& shares);

}  // namespace zf
