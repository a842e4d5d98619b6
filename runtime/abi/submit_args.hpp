// What zf_submit_args ask for. Pure. What they must not ask throws AbiError(ZF_ERROR_USAGE).
#pragma once

#include <cstddef>
#include <cstdint>

#include "ipc/arena.hpp"
#include "zf_runtime.h"

namespace zf {

/// Chunks [begin, end) of a group.
struct ChunkRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Throws unless the arguments are sound by themselves, for a handle with so many groups. Leaves out the
/// numbers of groups, and what is asked for each of them.
void check_args(const zf_submit_args& args, std::size_t group_count, bool takes_notes);

/// Throws if one of the `groups` groups of a submission has no scalars.
void check_scalars_of(const zf_submit_args& args, std::size_t groups);

WorkKind kind_of(const zf_submit_args& args);

/// Returns the scalars of this number.
zf_scalars scalars_of(const zf_submit_args& args, std::size_t number);

/// Returns what a submission asks for one group, which is number `index` among its groups.
GroupRequest request_of(const zf_submit_args& args, std::size_t index, std::uint64_t serial);

/// Returns the chunks of a group that a submission names. Throws if these are not whole ones.
ChunkRange chunks_of(const GroupBlock& group, const zf_submit_args& args);

}  // namespace zf
