#include "worker/saving.hpp"

#include <cstddef>
#include <cstring>

namespace zf {

void Saving::copy(std::uint32_t group, const Slice& slice) const noexcept {
  std::atomic<std::uint32_t>& failed = arena_.control().save_failed;
  const GroupBlock& block = arena_.group(group);
  if (!arena_.has_saved_area()) failed.store(1, std::memory_order_relaxed);
  try {
    for (std::size_t kind = 0; kind < kArrayKinds; ++kind) {
      if (!block.is_state(static_cast<ArrayKind>(kind))) continue;
      if (failed.load(std::memory_order_relaxed) != 0) return;
      const ArrayPlace from = block.part_of(block.arrays[kind], slice.begin, slice.size());
      const ArrayPlace to = arena_.saved_place(from);
      arena_.reserve(to.offset, to.bytes);
      std::memcpy(arena_.at<std::byte>(to.offset), arena_.at<std::byte>(from.offset), from.bytes);
    }
  } catch (...) {
    failed.store(1, std::memory_order_relaxed);
  }
}

void Saving::resume() const {
  ControlBlock& control = arena_.control();
  constexpr std::uint32_t kMost = 2;  // fewer than zf_options.max_restarts is by default
  if (control.save_resumptions.fetch_add(1, std::memory_order_relaxed) >= kMost)
    control.save_failed.store(1, std::memory_order_relaxed);
}

void Saving::note_step(std::uint32_t group) const {
  GroupBlock& block = arena_.group(group);
  block.saved_step = last_step_number(block);
}

}  // namespace zf
