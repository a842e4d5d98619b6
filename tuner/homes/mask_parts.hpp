// Divides the masks that a launcher gave to the ranks of a node, where they overlap. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "base/id_set.hpp"
#include "homes/homes.hpp"
#include "os/allowed.hpp"
#include "topology/topology.hpp"

namespace zf {

/// The CPUs of all ranks that have one mask. homes_of() divides them among these ranks.
struct MaskPart {
  std::vector<std::size_t> ranks;
  CpuSet cpus;  ///< inside the mask, and in no other part
};

/// Returns a part for each mask that differs from those before it. Every core of a mask is in a part. The
/// smallest number of cores per rank is as large as the masks let it be, then the next smallest, and so on.
/// Among equal divisions, takes one with many cores near the ranks' places. A core is in two parts only if no
/// mask has all of the core, or some rank would have no core otherwise. Masks that do not overlap are their
/// own parts.
///
/// `masks` has one mask for each of the `places`, all of them inside what is allowed. Throws
/// Error(infeasible), with the ranks and their CPUs, if the masks of some ranks have fewer cores than there
/// are such ranks. allowed: says where more can come from.
std::vector<MaskPart> mask_parts(const Topology& topology, const std::vector<CpuSet>& masks,
                                 const std::vector<Preference>& places, const Allowed& allowed);

}  // namespace zf
