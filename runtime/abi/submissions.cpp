#include "abi/submissions.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include "abi/status.hpp"
#include "abi/submit_args.hpp"
#include "base/format.hpp"
#include "ipc/notes.hpp"

namespace zf {
namespace {

/// Returns whether the chunks of such work are counted (WorkEntry::first_chunk).
bool is_counted(WorkKind kind) { return kind != WorkKind::norm && kind != WorkKind::save; }

/// Returns whether two requests compute the same step.
bool is_same_step(const GroupRequest& one, const GroupRequest& other) {
  using Bits = std::array<std::uint32_t, sizeof(AdamScalars) / sizeof(float)>;  // 0 and -0 differ
  return one.mode == other.mode && std::bit_cast<Bits>(one.scalars) == std::bit_cast<Bits>(other.scalars);
}

}  // namespace

Submissions::Submissions(const Arena& arena) : arena_(arena), groups_(arena.control().group_count) {
  for (std::uint32_t i = 0; i < groups_.size(); ++i) {
    if (arena.group(i).log.bytes != 0) groups_[i].begun.assign(arena.group(i).chunks(), false);
  }
  chosen_.reserve(groups_.size());
}

void Submissions::check_group(std::size_t group) const {
  if (group < groups_.size()) return;
  throw AbiError(ZF_ERROR_USAGE,
                 format_text("there is no group {}: the number of groups is {}", group, groups_.size()));
}

std::uint64_t Submissions::submitted() const {
  return arena_.control().submitted.load(std::memory_order_seq_cst);
}

bool Submissions::all_done() const {
  return arena_.control().completed.load(std::memory_order_seq_cst) == submitted();
}

bool Submissions::is_state_whole() const {
  std::uint64_t count = arena_.control().completed.load(std::memory_order_seq_cst);
  while (count != submitted() && !is_counted(arena_.entry(count).kind)) ++count;
  return count == submitted();
}

std::uint64_t Submissions::submit(const zf_submit_args& args) {
  check_args(args, groups_.size(), arena_.control().note_bytes != 0);
  choose_groups(args);
  check_scalars_of(args, chosen_.size());
  for (std::size_t i = 0; i < chosen_.size(); ++i) check_elements(i, args);
  if (kind_of(args) == WorkKind::step) {
    prepare(args);
    return args.prepares == 0 && !chosen_.empty() ? go() : submitted();
  }
  std::uint64_t count = submitted();
  for (std::size_t i = 0; i < chosen_.size(); ++i) publish(i, args, count);
  ring(count);
  return count;
}

void Submissions::prepare(const zf_submit_args& args) {
  ControlBlock& control = arena_.control();
  control.prepared.store(0, std::memory_order_seq_cst);
  // From the last group to the first, so that each knows its next one.
  std::uint32_t next = 0;
  for (std::size_t i = chosen_.size(); i-- > 0;) {
    GroupBlock& block = arena_.group(chosen_[i]);
    block.requests[args.buffer] = request_of(args, i, groups_[chosen_[i]].serial + 1);
    block.prepared_next = std::exchange(next, chosen_[i] + 1);
  }
  control.prepared_buffer = args.buffer;
  control.prepared_note = args.note == nullptr || chosen_.empty() ? 0 : 1;
  if (control.prepared_note != 0) write_note(arena_, args.note, scalars_of(args, 0).step);
  control.prepared.store(next, std::memory_order_seq_cst);
}

bool Submissions::has_prepared() const {
  const ControlBlock& control = arena_.control();
  const std::uint32_t first = control.prepared.load(std::memory_order_seq_cst);
  return first != 0 &&
         arena_.group(first - 1).requests[control.prepared_buffer].serial == groups_[first - 1].serial + 1;
}

void Submissions::drop_prepared() { arena_.control().prepared.store(0, std::memory_order_seq_cst); }

std::uint64_t Submissions::go() {
  if (!has_prepared())
    throw AbiError(ZF_ERROR_USAGE, "no step is prepared", "zf_submit with zf_submit_args.prepares does that");
  const ControlBlock& control = arena_.control();
  for (std::uint32_t next = control.prepared; next != 0; next = arena_.group(next - 1).prepared_next) {
    if (groups_[next - 1].undecided.value_or(control.prepared_buffer) == control.prepared_buffer) continue;
    throw AbiError(
        ZF_ERROR_USAGE,
        format_text("group {} has a speculated step of another gradient buffer than the prepared one",
                    next - 1),
        "submit ZF_TAKE_BACK for it first");
  }
  std::uint64_t count = submitted();
  for (std::uint32_t next = control.prepared; next != 0; next = arena_.group(next - 1).prepared_next)
    publish_step(next - 1, control.prepared_buffer, count);
  if (control.prepared_note != 0) next_note(arena_).ticket.store(count, std::memory_order_release);
  ring(count);
  drop_prepared();
  return count;
}

void Submissions::ring(std::uint64_t count) {
  arena_.control().submitted.store(count, std::memory_order_seq_cst);
  arena_.control().work.ring();
}

void Submissions::choose_groups(const zf_submit_args& args) {
  chosen_.clear();
  if (args.groups != nullptr) {
    chosen_.assign(args.groups, args.groups + args.n_groups);
  } else {
    chosen_.resize(groups_.size());
    std::iota(chosen_.begin(), chosen_.end(), 0U);
  }
  ++calls_;
  const std::uint64_t completed = arena_.control().completed.load(std::memory_order_seq_cst);
  for (const std::uint32_t index : chosen_) {
    check_group(index);
    Group& group = groups_[index];
    if (std::exchange(group.chosen_by, calls_) == calls_)
      throw AbiError(ZF_ERROR_USAGE, format_text("group {} is named twice", index));
    // A step may be submitted after a norm of the same gradients, because work is done in order.
    const auto is_pending = [&](WorkKind kind) {
      return group.last_of(kind, args.buffer).ticket > completed;
    };
    const bool speculates = kind_of(args) == WorkKind::speculate;  // other chunks may follow at once
    const bool busy =
        is_pending(WorkKind::step) || is_pending(speculates ? WorkKind::take_back : kind_of(args));
    if (args.buffer == 1 && !arena_.group(index).has_second_grads())
      throw AbiError(ZF_ERROR_USAGE, format_text("group {} has no gradient buffer {}", index, args.buffer),
                     "use buffer 0, or ask for two with zf_group.grad_buffers");
    check_speculation(index, args);
    if (busy) {
      throw AbiError(ZF_ERROR_BUSY,
                     format_text("group {}: gradient buffer {} is still being read", index, args.buffer),
                     "zf_wait for its last submission, or use the other buffer");
    }
  }
}

void Submissions::check_speculation(std::size_t index, const zf_submit_args& args) const {
  const std::optional<std::uint32_t>& undecided = groups_[index].undecided;
  const auto refuse = [&](std::string_view why, std::string_view hint) {
    throw AbiError(ZF_ERROR_USAGE, format_text("group {} {}", index, why), std::string(hint));
  };
  switch (kind_of(args)) {
    case WorkKind::speculate:
      if (undecided && undecided != args.buffer)
        refuse("has a speculated step that is not decided", "submit ZF_STEP or ZF_TAKE_BACK");
      if (arena_.group(index).elements != 0 && arena_.group(index).log.bytes == 0)
        refuse("has no log for speculated steps", "set zf_group.speculative");
      break;
    case WorkKind::take_back:
      if (undecided != args.buffer) refuse("has no speculated step of this gradient buffer", "");
      break;
    case WorkKind::step:
      if (undecided && undecided != args.buffer)
        refuse("has a speculated step of the other gradient buffer", "submit ZF_TAKE_BACK for that first");
      break;
    case WorkKind::norm:
    case WorkKind::save:
    case WorkKind::keep:
      break;
  }
}

void Submissions::check_elements(std::size_t number, const zf_submit_args& args) const {
  if (kind_of(args) != WorkKind::speculate) return;
  const std::uint32_t index = chosen_[number];
  const Group& group = groups_[index];
  const ChunkRange chunks = chunks_of(arena_.group(index), args);
  if (!group.undecided) return;
  if (group.speculations == kMaxSpeculations)
    throw AbiError(ZF_ERROR_USAGE,
                   format_text("group {} has {} speculations of one step", index, kMaxSpeculations),
                   "let each have more elements");
  const auto at = [&](std::uint64_t chunk) {
    return group.begun.begin() + static_cast<std::ptrdiff_t>(std::min(chunk, group.begun.size()));
  };
  const bool is_begun = std::find(at(chunks.begin), at(chunks.end), true) != at(chunks.end);
  if (!is_begun && chunks.begin != chunks.end &&
      is_same_step(request_of(args, number, 0), arena_.group(index).speculations[args.buffer]))
    return;
  throw AbiError(
      ZF_ERROR_USAGE,
      format_text("group {} has a speculated step {} that is not decided", index,
                  is_begun || chunks.begin == chunks.end ? "of these elements" : "with other scalars"),
      "submit ZF_STEP or ZF_TAKE_BACK");
}

void Submissions::publish(std::size_t number, const zf_submit_args& args, std::uint64_t& count) {
  const std::uint32_t index = chosen_[number];
  Group& group = groups_[index];
  GroupBlock& block = arena_.group(index);
  GroupRequest& speculation = block.speculations[args.buffer];
  const WorkKind kind = kind_of(args);
  if (kind == WorkKind::speculate) {
    const ChunkRange chunks = chunks_of(block, args);
    if (!group.undecided) {
      speculation = request_of(args, number, 0);
      group.undecided = args.buffer;
      group.begun.assign(block.chunks(), false);
      group.speculations = 0;
    }
    ++group.speculations;
    const auto first = group.begun.begin();
    std::fill(first + static_cast<std::ptrdiff_t>(chunks.begin),
              first + static_cast<std::ptrdiff_t>(chunks.end), true);
    publish_chunks(index, args.buffer, kind, chunks, count);
    return;
  }
  if (kind == WorkKind::take_back) group.undecided.reset();
  publish_entry(index, args.buffer, kind, count);
}

void Submissions::publish_step(std::uint32_t index, std::uint32_t buffer, std::uint64_t& count) {
  Group& group = groups_[index];
  const GroupBlock& block = arena_.group(index);
  WorkKind kind = WorkKind::step;
  if (group.undecided) {
    if (is_same_step(block.requests[buffer], block.speculations[buffer])) {
      kind = WorkKind::keep;
    } else {
      publish_entry(index, buffer, WorkKind::take_back, count);
    }
    group.undecided.reset();
  }
  ++group.serial;
  publish_entry(index, buffer, kind, count);
}

void Submissions::publish_entry(std::uint32_t group, std::uint32_t buffer, WorkKind kind,
                                std::uint64_t& count) {
  publish_chunks(group, buffer, kind, {0, arena_.group(group).chunks()}, count);
}

void Submissions::publish_chunks(std::uint32_t group, std::uint32_t buffer, WorkKind kind, ChunkRange chunks,
                                 std::uint64_t& count) {
  arena_.entry(count++) = {.group = group,
                           .buffer = buffer,
                           .kind = kind,
                           .unused = 0,
                           .first_chunk = chunks_,
                           .begin_chunk = chunks.begin,
                           .end_chunk = chunks.end};
  const WorkKind submitted = kind == WorkKind::keep ? WorkKind::step : kind;
  groups_[group].last_of(submitted, buffer) = {.ticket = count, .first_chunk = chunks_};
  if (is_counted(kind)) chunks_ += arena_.group(group).chunks();
}

std::optional<std::size_t> Submissions::undecided_group() const {
  const auto found =
      std::ranges::find_if(groups_, [](const Group& group) { return group.undecided.has_value(); });
  if (found == groups_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - groups_.begin());
}

void Submissions::go_on() {
  const std::uint64_t count = submitted();
  if (count != 0) {
    const WorkEntry& last = arena_.entry(count - 1);
    chunks_ = last.first_chunk + (is_counted(last.kind) ? arena_.group(last.group).chunks() : 0);
  }
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const GroupBlock& block = arena_.group(i);
    groups_[i].serial = block.committed.load(std::memory_order_acquire);
    if (block.speculated != 0) groups_[i].undecided = block.speculated - 1;
  }
}

void Submissions::take_back_all() {
  if (!undecided_group()) return;
  std::uint64_t count = submitted();
  for (std::uint32_t i = 0; i < groups_.size(); ++i) {
    if (!groups_[i].undecided) continue;
    publish_entry(i, *groups_[i].undecided, WorkKind::take_back, count);
    groups_[i].undecided.reset();
  }
  ring(count);
}

std::uint64_t Submissions::submit_save(std::uint64_t room) {
  ControlBlock& control = arena_.control();
  const std::uint64_t completed = control.completed.load(std::memory_order_seq_cst);
  std::uint64_t count = submitted();
  if (groups_.back().last_of(WorkKind::save, 0).ticket > completed)
    throw AbiError(ZF_ERROR_BUSY, "the copy of an export that was given up is not done", "call zf_wait");
  control.save_failed.store(0, std::memory_order_relaxed);
  control.save_resumptions.store(0, std::memory_order_relaxed);
  control.save_released.store(0, std::memory_order_relaxed);
  control.save_room = room;
  for (std::size_t i = 0; i < control.members; ++i)
    arena_.member(i).saved.store(0, std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < groups_.size(); ++i) {
    arena_.group(i).saved_by_step.store(SavedByStep::no, std::memory_order_relaxed);
    publish_entry(i, 0, WorkKind::save, count);
  }
  ring(count);
  return count;
}

SubmittedStep Submissions::last_step(std::size_t group, std::uint64_t ticket) const {
  SubmittedStep found;
  for (const Last& last : groups_[group].last[static_cast<std::size_t>(WorkKind::step)]) {
    if (last.ticket <= ticket && last.ticket > found.ticket) found = {last.ticket, last.first_chunk};
  }
  return found;
}

std::uint64_t elements_done(const Arena& arena, std::size_t group, const SubmittedStep& step) {
  const ControlBlock& control = arena.control();
  const GroupBlock& block = arena.group(group);
  if (control.completed.load(std::memory_order_seq_cst) >= step.ticket) return block.elements;
  std::uint64_t chunks = block.chunks();
  for (std::size_t i = 0; i < control.members; ++i) {
    const std::uint64_t passed = arena.member(i).chunks.load(std::memory_order_seq_cst);
    chunks = std::min(chunks, passed > step.first_chunk ? passed - step.first_chunk : 0);
  }
  return std::min(chunks * block.chunk_elements, block.elements);
}

}  // namespace zf
