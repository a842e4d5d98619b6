// Which pool member updates which part of every group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/slices.hpp"

namespace zf {

/// A group and the chunks that it is reported in.
struct GroupCut {
  std::uint64_t elements;
  std::uint64_t chunk_elements;  ///< not 0, a multiple of kSliceGrain
};

/// For each chunk of each group one slice per member, in order, covering the group; inner boundaries at
/// kSliceGrain: [group][chunk][member].
///
/// Each chunk is cut among all members, so that chunks become finished one after the other, from the first,
/// while the step runs. (With one slice per member over the whole group, all of them would be finished at the
/// end only.) Every chunk is equal within one grain, and so is the sum over all of them: where a chunk does
/// not divide, the grains left over go on where those of the chunk before ended. (Else they would all go to
/// the first members: 16 groups of 4K elements would keep 4 threads of 16 busy.)
/// A fixed share per member, whatever is submitted together, keeps pages with the thread that first touched
/// them. Pure. Precondition: members >= 1.
using GroupShares = std::vector<std::vector<Slice>>;
std::vector<GroupShares> deal_shares(const std::vector<GroupCut>& groups, std::size_t members);

}  // namespace zf
