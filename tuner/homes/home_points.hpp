// What counts when cores are divided, in order of importance. The order is here and nowhere else: the search,
// the reasons, `explain --homes` and docs/homes.md follow it. Pure.
#pragma once

#include <array>
#include <cstddef>

namespace zf {

/// The points, the most important first. In each the worst rank counts first, because all ranks wait for it.
enum class HomePoint {
  near_gpu,
  gpu_package,
  nodes,
  packages,
  sizes,
  fast_makes,
  l3_groups,
  fast_today,
};

/// A point in words.
struct HomePointWords {
  const char* name;         ///< as a wish: "GPU's CPUs"
  const char* title;        ///< of a column of numbers
  const char* short_title;  ///< for narrow pages; empty: `title`
  const char* sentence;     ///< says what is better
  const char* noun;         ///< what the number counts, if it is 1
  const char* gain;         ///< of the worst rank: "{} near its GPU, and could have {}"
  const char* lack;         ///< follows what is missing or too much: "more than {}", with "8 cores need"
  bool more_is_better;
};

inline constexpr std::array<HomePointWords, 8> kHomePoints{{
    {"GPU's CPUs", "near its GPU", "near GPU", "Many cores near the rank's own GPU, up to an even share.",
     "core", "{} near its GPU, and could have {}", "that could be near its GPU", true},
    {"GPU's package", "in its package", "in package",
     "Many cores in the package of its GPU, up to an even share.", "core",
     "{} in the package of its GPU, and could have {}", "that could be in the package of its GPU", true},
    {"NUMA nodes", "NUMA nodes", "nodes", "Few NUMA nodes.", "NUMA node",
     "cores of {}, and could have cores of {}", "more than {}", false},
    {"packages", "packages", "", "Few packages; a NUMA node can have several (node interleaving, NPS0).",
     "package", "cores of {}, and could have cores of {}", "more than {}", false},
    {"equal sizes", "cores", "", "Many cores for the smallest home.", "core", "{}, and could have {}",
     "less than an even share", true},
    {"fast cores", "fast cores", "fast", "Many cores of faster makes (P-cores).", "fast core",
     "{}, and could have {}", "less than an even share", true},
    {"L3 groups", "L3 groups", "L3s", "Few L3 groups; a core without an L3 cache is in none.", "L3 group",
     "cores of {}, and could have cores of {}", "more than {}", false},
    {"fast today", "fast today", "today", "Many cores that are fast today, among those of one make.", "core",
     "{} that are fast today, and could have {}", "that are fast today less than an even share", true},
}};

inline const HomePointWords& words_of(HomePoint point) {
  return kHomePoints[static_cast<std::size_t>(point)];
}

/// The sizes that homes may have.
struct HomeSizes {
  int least = 1;
  int most = 1;
};

/// A home with fewer cores gives up none so that another home lies in fewer nodes. It would lose more than an
/// eighth of its cores, and all ranks wait for the slowest.
inline constexpr int kFewCores = 8;

/// Homes differ by so many cores at most. HomePoint::sizes lets them differ by two only where a point above
/// it gains by that.
inline constexpr int kMostDifference = 2;

/// Returns the sizes between which the homes of so many ranks may lie.
HomeSizes home_sizes(int cores, int ranks);

}  // namespace zf
