#include "worker/saving.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "engine/half.hpp"

namespace zf {
namespace {

constexpr unsigned kLookUs = 500;

}  // namespace

void Saving::copy(std::uint32_t group, std::size_t member) const noexcept {
  ControlBlock& control = arena_.control();
  const GroupBlock& block = arena_.group(group);
  std::atomic<std::uint64_t>& saved = arena_.member(member).saved;
  std::uint64_t group_end = block.image_offset;
  for (const ArrayKind kind : kStateArrays) group_end += to_image_page(block.image_bytes(kind));
  try {
    std::uint64_t begin = std::max(block.image_offset, saved.load(std::memory_order_relaxed));
    for (std::uint64_t end = 0; begin < group_end; begin = end) {
      end = std::min((begin / kImageUnit + 1) * kImageUnit, group_end);
      if (begin / kImageUnit % control.members != member) continue;
      saved.store(
          begin, std::memory_order_release);  // what lies below is not this member's: it waits for none of it
      if (!await_room(end)) return;
      copy_part(block, begin, end);
      saved.store(end, std::memory_order_release);
    }
  } catch (...) {
    control.save_failed.store(1, std::memory_order_relaxed);
    return;
  }
  if (control.save_failed.load(std::memory_order_relaxed) == 0 &&
      saved.load(std::memory_order_relaxed) < group_end)
    saved.store(group_end, std::memory_order_release);
}

bool Saving::await_room(std::uint64_t end) const noexcept {
  const ControlBlock& control = arena_.control();
  for (;;) {
    if (control.save_failed.load(std::memory_order_relaxed) != 0) return false;
    if (end <= control.save_released.load(std::memory_order_acquire) + control.save_room) return true;
    ::usleep(kLookUs);
  }
}

void Saving::copy_part(const GroupBlock& block, std::uint64_t begin, std::uint64_t end) const {
  const ArrayPlace to = arena_.saved(begin, end - begin);
  arena_.reserve(to.offset, to.bytes);
  std::uint64_t array_begin = block.image_offset;
  for (const ArrayKind kind : kStateArrays) {
    const std::uint64_t bytes = block.image_bytes(kind);
    const std::uint64_t from = std::max(array_begin, begin);
    const std::uint64_t until = std::min(array_begin + bytes, end);
    if (from < until) {
      auto* const out = arena_.at<std::byte>(to.offset + (from - begin));
      if (kind == ArrayKind::params && has_split_masters(block.format)) {
        const std::uint64_t first = (from - array_begin) / sizeof(float);
        const auto* const high = arena_.at<std::uint16_t>(block.place(ArrayKind::copy).offset) + first;
        const auto* const low = arena_.at<std::uint16_t>(block.place(ArrayKind::params).offset) + first;
        auto* const joined = reinterpret_cast<float*>(out);
        for (std::uint64_t i = 0; i < (until - from) / sizeof(float); ++i)
          joined[i] = f32_of_split({.high = high[i], .low = low[i]});
      } else {
        std::memcpy(out, arena_.at<std::byte>(block.place(kind).offset + (from - array_begin)), until - from);
      }
    }
    array_begin += to_image_page(bytes);
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
