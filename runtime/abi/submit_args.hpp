// Checks and reads zf_submit_args. Wrong arguments throw AbiError(ZF_ERROR_USAGE). Pure.
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

/// Throws if an argument is wrong, or if two do not go together. Does not check the numbers in `groups`, and
/// the work on each of these groups. group_count: of the handle. takes_notes: the handle has room for notes.
void check_args(const zf_submit_args& args, std::size_t group_count, bool takes_notes);

/// Throws if one of the `groups` groups of a submission has no scalars.
void check_scalars_of(const zf_submit_args& args, std::size_t groups);

WorkKind kind_of(const zf_submit_args& args);

/// Returns the scalars of this number.
zf_scalars scalars_of(const zf_submit_args& args, std::size_t number);

/// Returns what a submission asks for one group, which is number `index` among its groups.
GroupRequest request_of(const zf_submit_args& args, std::size_t index, std::uint64_t serial);

/// Returns the chunks of a group that a submission names. Throws if they are not whole chunks.
ChunkRange chunks_of(const GroupBlock& group, const zf_submit_args& args);

}  // namespace zf
