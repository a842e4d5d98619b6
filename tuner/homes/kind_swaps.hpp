// Ranks swap fast cores for slow ones where nothing else changes. Pure.
#pragma once

#include "homes/domains.hpp"
#include "homes/home_score.hpp"

namespace zf {

/// Swaps cores of different kinds between two ranks as long as one of them has at least two fast cores more
/// than the other. Both cores are of one domain and one L3 group, so no other wish is touched but that for
/// neighbouring cores. The fastest kind comes first, and a slower one never takes back what it has given.
void swap_kinds(const Domains& domains, Division& division);

}  // namespace zf
