#include "abi/submit_args.hpp"

#include "abi/scalars.hpp"
#include "abi/status.hpp"
#include "abi/versioned.hpp"
#include "base/format.hpp"
#include "base/text.hpp"

namespace zf {
namespace {

constexpr std::uint32_t kKindsOfUsers = 4;  // of zf_submit_args.work

void check_numbers(const zf_submit_args& args, std::size_t group_count) {
  if (args.work >= kKindsOfUsers)
    throw AbiError(
        ZF_ERROR_USAGE,
        format_text("work is {}; it must be ZF_STEP, ZF_NORM, ZF_SPECULATE or ZF_TAKE_BACK", args.work));
  if (args.buffer >= kGradBuffers)
    throw AbiError(ZF_ERROR_USAGE, format_text("buffer is {}; it must be 0 or 1", args.buffer));
  if (args.reserved != 0)
    throw AbiError(ZF_ERROR_USAGE, format_text("reserved is {}; it must be 0", args.reserved));
  if (args.groups == nullptr && args.n_groups != 0)
    throw AbiError(ZF_ERROR_USAGE, format_text("groups is NULL, but n_groups is {}", args.n_groups));
  if ((args.begin != 0 || args.end != 0) && kind_of(args) != WorkKind::speculate)
    throw AbiError(ZF_ERROR_USAGE, "begin or end is set, and work is not ZF_SPECULATE", "set both to 0");
  if (args.n_groups > group_count)
    throw AbiError(ZF_ERROR_USAGE,
                   format_text("n_groups is {}, but the number of groups is {}", args.n_groups, group_count));
}

/// Checks the scalars of a submission, except for those of each group.
void check_scalars(const zf_submit_args& args) {
  if (kind_of(args) == WorkKind::norm || kind_of(args) == WorkKind::take_back) {
    if (args.scalars == nullptr && args.scalars_of == nullptr && args.scalar_count == 0) return;
    throw AbiError(ZF_ERROR_USAGE,
                   format_text("work is {}, and scalars, scalars_of or scalar_count is set",
                               kind_of(args) == WorkKind::norm ? "ZF_NORM" : "ZF_TAKE_BACK"),
                   "it takes none");
  }
  if (args.groups != nullptr && args.n_groups == 0) return;
  if (args.scalars == nullptr)
    throw AbiError(ZF_ERROR_USAGE, "scalars is NULL", "zf_adam_scalars computes those of a step");
  check_element_size(args.scalars_size, kFirstScalarsBytes, "zf_submit_args.scalars_size",
                     "set it to sizeof(zf_scalars)");
  for (std::size_t i = 0; i < args.scalar_count; ++i) {
    const std::uint64_t step = scalars_of(args, i).step;
    if (step != 0 && step <= kMaxStep) continue;
    throw AbiError(ZF_ERROR_USAGE,
                   format_text("scalars {}: step is {}; it must be 1 to {}", i, step, kMaxStep));
  }
}

}  // namespace

void check_args(const zf_submit_args& args, std::size_t group_count, bool takes_notes) {
  check_numbers(args, group_count);
  check_scalars(args);
  if (args.prepares > 1 || (args.prepares == 1 && kind_of(args) != WorkKind::step))
    throw AbiError(ZF_ERROR_USAGE, "prepares must be 0, or 1 with a ZF_STEP");
  if (args.note != nullptr && (!takes_notes || kind_of(args) != WorkKind::step))
    throw AbiError(ZF_ERROR_USAGE,
                   "a note goes with a ZF_STEP alone, and zf_options.note_bytes says its size");
}

WorkKind kind_of(const zf_submit_args& args) {
  static_assert(static_cast<int>(WorkKind::step) == ZF_STEP && static_cast<int>(WorkKind::norm) == ZF_NORM &&
                static_cast<int>(WorkKind::speculate) == ZF_SPECULATE &&
                static_cast<int>(WorkKind::take_back) == ZF_TAKE_BACK);
  return static_cast<WorkKind>(args.work);
}

zf_scalars scalars_of(const zf_submit_args& args, std::size_t number) {
  return read_scalars(args.scalars, number, args.scalars_size);
}

void check_scalars_of(const zf_submit_args& args, std::size_t groups) {
  if (args.scalars == nullptr) return;
  if (args.scalars_of == nullptr) {
    if (args.scalar_count == 1 || args.scalar_count == groups) return;
    throw AbiError(ZF_ERROR_USAGE,
                   format_text("scalar_count is {} for {}", args.scalar_count, print_count(groups, "group")),
                   "give one for all or one for each, or set scalars_of");
  }
  for (std::size_t i = 0; i < groups; ++i) {
    if (args.scalars_of[i] < args.scalar_count) continue;
    throw AbiError(ZF_ERROR_USAGE, format_text("scalars_of[{}] is {}, but scalar_count is {}", i,
                                               args.scalars_of[i], args.scalar_count));
  }
}

GroupRequest request_of(const zf_submit_args& args, std::size_t index, std::uint64_t serial) {
  const std::size_t of_all = args.scalar_count == 1 ? 0 : index;
  const zf_scalars scalars = scalars_of(args, args.scalars_of == nullptr ? of_all : args.scalars_of[index]);
  return {.step = scalars.step,
          .serial = serial,
          .seed = scalars.seed,
          .scalars = kernel_scalars(scalars),
          .mode = static_cast<AdamMode>(scalars.mode)};
}

ChunkRange chunks_of(const GroupBlock& group, const zf_submit_args& args) {
  if (args.end == 0) return {0, group.chunks()};
  const std::uint64_t each = group.chunk_elements;
  const auto is_whole = [&](std::uint64_t at) { return at % each == 0 || at == group.elements; };
  if (args.begin >= args.end || args.end > group.elements || !is_whole(args.begin) || !is_whole(args.end)) {
    throw AbiError(ZF_ERROR_USAGE,
                   format_text("elements {} to {} are not whole chunks of {} of a group of {}", args.begin,
                               args.end, each, group.elements));
  }
  return {args.begin / each, (args.end + each - 1) / each};
}

}  // namespace zf
