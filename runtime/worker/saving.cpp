#include "worker/saving.hpp"

#include <unistd.h>

#include <algorithm>

namespace zf {
namespace {

constexpr unsigned kLookUs = 500;

/// Calls use(kind, begin) for each array, with its place in the image.
template <class Use>
void for_arrays(const GroupBlock& block, Use use) {
  for (const ArrayKind kind : kStateArrays) {
    if (block.image_bytes(kind) != 0) use(kind, block.image_begin(kind));
  }
}

/// Returns the bytes of the image that an array's element has.
std::uint64_t each_of(const GroupBlock& block, ArrayKind kind) {
  return block.image_bytes(kind) / block.elements;
}

}  // namespace

std::uint64_t Saving::room_to_place(bool is_reserved) const {
  const ControlBlock& control = arena_.control();
  const std::uint64_t room = control.save_room.load(std::memory_order_relaxed);
  return is_reserved ? std::min(room, control.save_reserved.load(std::memory_order_relaxed)) : room;
}

void Saving::place_memory(std::size_t member, std::uint64_t room, bool is_reserved) const {
  const ControlBlock& control = arena_.control();
  for (std::uint64_t at = member * kImageUnit; at < room; at += control.members * kImageUnit) {
    const std::uint64_t offset = control.arena_bytes + at;
    if (is_reserved) {
      arena_.map_reserved(offset, kImageUnit);
    } else {
      arena_.reserve(offset, kImageUnit);
    }
  }
}

void Saving::note_placed(std::uint64_t room) const { arena_.control().save_reserved.store(room); }

bool Saving::copy(std::uint32_t group, std::size_t member,
                  const std::function<bool()>& gives_way) const noexcept {
  ControlBlock& control = arena_.control();
  const GroupBlock& block = arena_.group(group);
  std::atomic<std::uint64_t>& saved = arena_.member(member).saved;
  const std::uint64_t last = block.image_end();
  try {
    std::uint64_t begin = std::max(block.image_offset, saved.load(std::memory_order_relaxed));
    for (std::uint64_t end = 0; begin < last; begin = end) {
      end = std::min((begin / kImageUnit + 1) * kImageUnit, last);
      if (begin / kImageUnit % control.members != member) continue;
      saved.store(
          begin, std::memory_order_release);  // what lies below is not this member's: it waits for none of it
      if (gives_way()) return false;
      if (!await_room(end)) return true;
      const ArrayPlace to = arena_.saved(begin, end - begin);
      if (!is_reserved()) arena_.reserve(to.offset, to.bytes);
      copy_part(block, begin, end);
      saved.store(end, std::memory_order_release);
    }
  } catch (...) {
    control.save_failed.store(1, std::memory_order_relaxed);
  }
  if (!is_given_up() && saved.load(std::memory_order_relaxed) < last)
    saved.store(last, std::memory_order_release);
  return true;
}

bool Saving::is_over(std::uint32_t group) const {
  return is_given_up() || is_saved(arena_, group, arena_.group(group).image_end());
}

bool Saving::may_join() const {
  return is_given_up() ||
         arena_.control().save_room.load(std::memory_order_relaxed) >= arena_.control().image_bytes;
}

bool Saving::is_given_up() const { return arena_.control().save_failed.load(std::memory_order_relaxed) != 0; }

bool Saving::is_reserved() const {
  const ControlBlock& control = arena_.control();
  return control.save_reserved.load(std::memory_order_relaxed) >= control.save_room;
}

void Saving::begin_step(std::uint32_t group) const {
  if (is_over(group)) return;
  arena_.group(group).saved_by_step.store(SavedByStep::is_under_way, std::memory_order_release);
}

void Saving::end_step(std::uint32_t group) const {
  if (is_by_step(group))
    arena_.group(group).saved_by_step.store(SavedByStep::done, std::memory_order_release);
}

bool Saving::is_by_step(std::uint32_t group) const {
  return arena_.group(group).saved_by_step.load(std::memory_order_relaxed) == SavedByStep::is_under_way;
}

void Saving::reserve(std::uint32_t group, const Slice& elements) const noexcept {
  if (is_reserved() || is_given_up()) return;
  const GroupBlock& block = arena_.group(group);
  try {
    for_arrays(block, [&](ArrayKind kind, std::uint64_t begin) {
      const std::uint64_t each = each_of(block, kind);
      const ArrayPlace to = arena_.saved(begin + elements.begin * each, elements.size() * each);
      arena_.reserve(to.offset, to.bytes);
    });
  } catch (...) {
    arena_.control().save_failed.store(1, std::memory_order_relaxed);
  }
}

void Saving::copy_elements(std::uint32_t group, const Slice& elements) const noexcept {
  if (is_given_up()) return;
  const std::uint64_t members = arena_.control().members;
  const GroupBlock& block = arena_.group(group);
  for_arrays(block, [&](ArrayKind kind, std::uint64_t array_begin) {
    const std::uint64_t each = each_of(block, kind);
    const std::uint64_t begin = array_begin + elements.begin * each;
    const std::uint64_t end = array_begin + elements.end * each;
    const std::uint64_t unit = begin / kImageUnit;
    // No member copies units meanwhile, so what is saved stays as it is.
    if (end <= (unit + 1) * kImageUnit && end <= arena_.member(unit % members).saved.load()) return;
    copy_array(block, kind, array_begin, begin, end);
  });
}

bool Saving::await_room(std::uint64_t end) const noexcept {
  const ControlBlock& control = arena_.control();
  for (;;) {
    if (is_given_up()) return false;
    if (end <= control.save_released.load(std::memory_order_acquire) + control.save_room) return true;
    ::usleep(kLookUs);
  }
}

void Saving::copy_part(const GroupBlock& block, std::uint64_t begin, std::uint64_t end) const noexcept {
  for_arrays(block, [&](ArrayKind kind, std::uint64_t array_begin) {
    const std::uint64_t from = std::max(array_begin, begin);
    const std::uint64_t until = std::min(array_begin + block.image_bytes(kind), end);
    if (from < until) copy_array(block, kind, array_begin, from, until);
  });
}

void Saving::copy_array(const GroupBlock& block, ArrayKind kind, std::uint64_t array_begin,
                        std::uint64_t begin, std::uint64_t end) const noexcept {
  StreamedArray array = {.to = arena_.at<std::byte>(arena_.saved(begin, end - begin).offset),
                         .bytes = end - begin};
  const std::uint64_t at = begin - array_begin;
  if (kind == ArrayKind::params && has_split_masters(block.format)) {
    array.high = arena_.at<std::uint16_t>(block.place(ArrayKind::copy).offset) + at / sizeof(float);
    array.from = arena_.at<std::uint16_t>(block.place(kind).offset) + at / sizeof(float);
  } else {
    array.from = arena_.at<std::byte>(block.place(kind).offset + at);
  }
  stream_(array);
}

void Saving::resume() const {
  ControlBlock& control = arena_.control();
  constexpr std::uint32_t kMost = 2;  // fewer than zf_options.max_restarts is by default
  if (control.save_resumptions.fetch_add(1, std::memory_order_relaxed) >= kMost)
    control.save_failed.store(1, std::memory_order_relaxed);
}

void Saving::note_step(std::uint32_t group, std::uint64_t serial) const {
  ControlBlock& control = arena_.control();
  GroupBlock& block = arena_.group(group);
  block.saved_step = block.steps[serial % 2];
  if (group + 1 == control.group_count && !is_given_up()) control.save_reserved.store(control.save_room);
}

}  // namespace zf
