// Up to 16 ranks exchange cores as long as that brings two of them nearer to their places. Pure.
#pragma once

#include <optional>
#include <vector>

#include "homes/domains.hpp"
#include "homes/share.hpp"

namespace zf {

/// Exchanges cores between pairs of ranks as long as that is better for the worse of the two, in this order:
/// cores near its place, cores in the package of its place, NUMA nodes, packages. Two ranks exchange equal
/// numbers of cores of two domains, or the larger rank gives the smaller one a core. So the sizes stay as
/// different as they were, or become more alike. It stops after four exchanges for each rank, even if more
/// would help, and does nothing for more than 16 ranks: the pairs would take longer than they are worth.
void exchange_cores(const Domains& domains, const std::vector<std::optional<int>>& preferences,
                    std::vector<std::vector<Share>>& shares);

}  // namespace zf
