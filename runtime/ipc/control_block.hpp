// The control data of the arena: everything besides the arrays, by which trainer and worker communicate.
//
// Each field is written by one side only, which is named at each struct. Fields that change while both sides
// run are atomics. Every other field is published by an atomic: written before the atomic is stored, and read
// after it is loaded.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/state_format.hpp"
#include "base/step_types.hpp"
#include "ipc/doorbell.hpp"

namespace zf {

inline constexpr std::array<char, 8> kArenaMagic = {'Z', 'F', 'A', 'R', 'E', 'N', 'A', '\0'};
/// The version of the arena. It is increased whenever anything below ArenaPrefix changes its place or its
/// meaning.
inline constexpr std::uint32_t kArenaVersion = 14;

/// The descriptors that a worker inherits.
inline constexpr int kWorkerArenaFd = 3;
inline constexpr int kWorkerTrainerFd = 4;  ///< pidfd of the trainer

/// A text field of fixed size. A longer text is cut, and the last byte is always 0.
template <std::size_t Size>
struct FixedText {
  std::array<char, Size> bytes;

  void store(std::string_view text) {
    bytes.fill('\0');
    std::memcpy(bytes.data(), text.data(), std::min(text.size(), Size - 1));
  }
  std::string load() const { return {bytes.data(), strnlen(bytes.data(), Size)}; }
};

enum class WorkerState : std::uint32_t {
  starting = 0,
  ready = 1,   ///< the pool runs and the memory is placed: steps are accepted
  failed = 2,  ///< prefix.error says why; the process is about to end
  left = 3,    ///< the worker was asked to stop, and did
};

/// The part that is the same in every version. A library and a worker of different versions can still tell
/// each other so.
struct ArenaPrefix {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::atomic<WorkerState> worker_state;  ///< by the worker
  FixedText<1008> error;                  ///< by the worker, before it stores `failed`
};
static_assert(offsetof(ArenaPrefix, version) == 8 && offsetof(ArenaPrefix, worker_state) == 12 &&
              offsetof(ArenaPrefix, error) == 16 && sizeof(ArenaPrefix) == 1024);

/// The arrays of a group. The numbers are those of zf_buffer_kind.
enum class ArrayKind : std::uint32_t {
  params,
  moment1,
  moment2,
  grads0,
  grads1,
  stale,
  copy,
  moment1_set1,
  moment2_set1
};
inline constexpr std::size_t kArrayKinds = 9;
/// The arrays of a group that the image of the state has, in this order. The last two are those of set 1.
inline constexpr std::array kStateArrays = {ArrayKind::params, ArrayKind::moment1, ArrayKind::moment2,
                                            ArrayKind::moment1_set1, ArrayKind::moment2_set1};
/// They begin at multiples of this.
inline constexpr std::uint64_t kImagePage = 4096;
/// The image is saved in units of this many bytes, from its beginning on. Unit n is of thread n % members.
inline constexpr std::uint64_t kImageUnit = std::uint64_t{1} << 20;
inline constexpr std::uint64_t to_image_page(std::uint64_t bytes) {
  return (bytes + kImagePage - 1) / kImagePage * kImagePage;
}
inline constexpr std::size_t kGradBuffers = 2;
/// A group has one set of moments for all its steps, or one for each gradient buffer.
inline constexpr std::size_t kMaxMomentSets = kGradBuffers;

/// The place of an array, in bytes from the start of the arena. bytes == 0 means that there is no such array.
struct ArrayPlace {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool operator==(const ArrayPlace&) const = default;
};

/// A step that the trainer asks for. The trainer writes it before the WorkEntry that names it is published.
struct GroupRequest {
  std::uint64_t step;    ///< its number
  std::uint64_t serial;  ///< what GroupBlock::committed becomes with this step
  std::uint64_t seed;    ///< of the rounding of bf16 moments
  AdamScalars scalars;
  AdamMode mode;
};
static_assert(sizeof(GroupRequest) == 64 && offsetof(GroupRequest, scalars) == 24 &&
              offsetof(GroupRequest, mode) == 60);

/// Says whether a step saves what it overwrites.
enum class SavedByStep : std::uint32_t {
  no = 0,  ///< MemberProgress::saved says what is saved
  is_under_way = 1,
  done = 2,  ///< the group's state is saved
};

struct alignas(64) GroupBlock {
  // Written by the trainer, before the worker starts.
  std::uint64_t elements;
  ElementType grad_type;
  ElementType copy_type;
  std::uint32_t stale;           ///< 1: the group has a snapshot
  std::uint32_t moment_sets;     ///< 1, or 2: one for each gradient buffer
  std::uint64_t chunk_elements;  ///< not 0: the group is stepped and reported in pieces of this many
  StateFormat format;            ///< of parameters and moments
  std::uint32_t range_count;
  std::uint64_t first_element;  ///< the number of the first element, for the rounding of bf16 moments
  std::uint64_t ranges_offset;  ///< ElementRange of this group
  std::array<ArrayPlace, kArrayKinds> arrays;
  ArrayPlace log;  ///< of speculated steps (engine/rollback.hpp); no bytes: there are none
  // Written by the trainer, one for each gradient buffer.
  std::array<GroupRequest, kGradBuffers> requests;
  std::array<GroupRequest, kGradBuffers> speculations;  ///< of WorkKind::speculate and take_back
  std::uint32_t prepared_next;  ///< 1 + the next group of the prepared step; 0: this is its last
  // Written by the worker, and by the trainer while no work is submitted. steps[committed % 2] is the number
  // of the last finished step. The next one is written beside it and becomes valid with one store, so that a
  // death at any instruction leaves a right one.
  alignas(64) std::atomic<std::uint64_t> committed;
  std::array<std::uint64_t, 2> steps;
  std::array<GradientNorm, kGradBuffers> norms;  ///< for each gradient buffer
  std::uint64_t saved_step;  ///< by the worker: the number of the last step before WorkKind::save
  /// Written by the worker: 0, or 1 + the gradient buffer of a speculated step that is done and not decided.
  std::uint32_t speculated;
  std::uint64_t image_offset;  ///< by the trainer, at the start: of the group's state in the image
  /// Written by the worker. The trainer clears it before it submits a save.
  std::atomic<SavedByStep> saved_by_step;

  /// Returns the number of chunks. The last one may be short, and an empty group has none.
  std::uint64_t chunks() const {
    return elements / chunk_elements + (elements % chunk_elements != 0 ? 1 : 0);
  }
  bool has_stale() const { return stale != 0; }
  /// Returns whether the step writes a copy that it does not read.
  bool has_copy() const { return copy_type != ElementType::none && !has_split_masters(format); }
  bool has_second_moment_set() const { return moment_sets == 2; }
  bool has_second_grads() const { return elements == 0 || grads(1).bytes != 0; }
  const ArrayPlace& place(ArrayKind kind) const { return arrays[static_cast<std::size_t>(kind)]; }
  /// Returns the bytes of an array of kStateArrays in the image of the state, without what follows it there.
  /// Masters are fp32 in any format.
  std::uint64_t image_bytes(ArrayKind kind) const {
    return kind == ArrayKind::params ? elements * sizeof(float) : place(kind).bytes;
  }
  /// Returns where an array of kStateArrays begins in the image of the state.
  std::uint64_t image_begin(ArrayKind kind) const {
    std::uint64_t at = image_offset;
    for (auto before = kStateArrays.begin(); *before != kind; ++before)
      at += to_image_page(image_bytes(*before));
    return at;
  }
  std::uint64_t image_end() const {
    return image_begin(kStateArrays.back()) + to_image_page(image_bytes(kStateArrays.back()));
  }
  const ArrayPlace& grads(std::uint32_t buffer) const {
    return arrays[static_cast<std::size_t>(ArrayKind::grads0) + buffer];
  }
  /// Return the moments that the steps of a gradient buffer use and update.
  const ArrayPlace& moment1(std::uint32_t buffer) const {
    return place(uses_set_1(buffer) ? ArrayKind::moment1_set1 : ArrayKind::moment1);
  }
  const ArrayPlace& moment2(std::uint32_t buffer) const {
    return place(uses_set_1(buffer) ? ArrayKind::moment2_set1 : ArrayKind::moment2);
  }
  bool uses_set_1(std::uint32_t buffer) const { return has_second_moment_set() && buffer == 1; }
  /// Returns the place of `count` elements of one of the group's arrays, from `begin` on.
  ArrayPlace part_of(const ArrayPlace& array, std::uint64_t begin, std::uint64_t count) const {
    if (elements == 0) return {array.offset, 0};
    const std::uint64_t each = array.bytes / elements;
    return {array.offset + begin * each, count * each};
  }
};
static_assert(sizeof(GroupBlock) == 640 && offsetof(GroupBlock, moment_sets) == 20 &&
              offsetof(GroupBlock, requests) == 216 && offsetof(GroupBlock, prepared_next) == 472 &&
              offsetof(GroupBlock, committed) == 512 && offsetof(GroupBlock, norms) == 536 &&
              offsetof(GroupBlock, saved_step) == 568 && offsetof(GroupBlock, speculated) == 576 &&
              offsetof(GroupBlock, image_offset) == 584 && offsetof(GroupBlock, saved_by_step) == 592);

/// Returns the number of the group's last finished step.
inline std::uint64_t& last_step_number(GroupBlock& group) {
  return group.steps[group.committed.load(std::memory_order_acquire) % 2];
}

/// `save` copies the group's state to the saved area, where no step changes it. `keep` is a step that is
/// speculated already: its outputs, and what its speculation left.
enum class WorkKind : std::uint32_t { step, norm, speculate, take_back, save, keep };
inline constexpr std::size_t kWorkKinds = 5;  ///< with a place of their own; `keep` has that of `step`
/// The most speculations of one group in one step.
inline constexpr std::uint64_t kMaxSpeculations = 64;

/// A piece of work on one group and one of its gradient buffers. The ring has room for each combination of
/// group, buffer and kind once, and in speculative groups for kMaxSpeculations, or as many as there are
/// chunks. None is submitted again before it is done, so the ring cannot overflow.
struct WorkEntry {
  std::uint32_t group;
  std::uint32_t buffer;
  WorkKind kind;
  std::uint32_t unused;
  /// Except for a norm or a save: the number of the group's first chunk, counted over all such work since the
  /// arena was created.
  std::uint64_t first_chunk;
  std::uint64_t begin_chunk;  ///< of the group: only chunks [begin_chunk, end_chunk) are worked on
  std::uint64_t end_chunk;
};
static_assert(sizeof(WorkEntry) == 40);

/// The progress of one thread of the worker. Only that thread writes it. `chunks` is the number of chunks in
/// which it has done its share, in the order of their numbers. A load of `chunks` with acquire also sees the
/// thread's stores to these chunks, including the outputs. A chunk is finished when all threads have passed
/// it. A step never writes a finished chunk again, not even after a death.
struct alignas(128) MemberProgress {
  std::atomic<std::uint64_t> chunks;
  /// The thread has saved its units of the image up to this byte. The trainer clears it before it submits a
  /// save.
  std::atomic<std::uint64_t> saved;
};
static_assert(sizeof(MemberProgress) == 128);

/// The number of pages of the arrays on and off the nodes of the plan, and the bytes in huge and in locked
/// pages.
struct PlacementStats {
  std::uint64_t pages_on_plan;  ///< of the pages that were checked
  std::uint64_t pages_elsewhere;
  std::uint64_t pages_absent;
  std::uint64_t huge_bytes;
  std::uint64_t locked_bytes;
};

/// The figures for zf_stats. The worker writes them before it is ready, except for the atomics, which it
/// writes at any time.
struct WorkerStats {
  std::atomic<std::uint64_t> batches;       ///< fork-joins
  std::atomic<std::uint64_t> last_step_ns;  ///< of one fork-join
  std::atomic<std::uint64_t> total_step_ns;
  std::atomic<std::uint64_t> start_ns;  ///< from the start of the process until it is ready
  std::uint32_t threads;
  std::uint32_t lost_cpus;  ///< CPUs of the pool that the worker could not use when it started
  FixedText<16> isa;
  FixedText<200> memory_note;  ///< what the machine refused; empty: nothing
  PlacementStats placement;
  FixedText<200> cpu_note;  ///< which CPUs of the pool are gone, and where its threads run; empty: none
};
static_assert(sizeof(WorkerStats) == 496 && offsetof(WorkerStats, cpu_note) == 296);

/// The fields that one side writes lie two cache lines away from those that the other spins on, because L2
/// fetches lines in pairs.
struct ControlBlock {
  ArenaPrefix prefix;
  // Written by the trainer, before the worker starts.
  std::uint64_t arena_bytes;  ///< without the saved area, which follows (Arena::saved())
  std::uint64_t groups_offset;
  std::uint64_t ring_offset;
  std::uint64_t arrays_offset;
  std::uint32_t group_count;
  std::uint32_t ring_capacity;   ///< a power of two
  std::int64_t spin_ns;          ///< 0 if both sides share their CPUs
  std::uint64_t undo_offset;     ///< UndoLog of each thread of the worker, zero at the start
  std::uint64_t members_offset;  ///< MemberProgress of each
  std::uint32_t members;         ///< threads of the worker
  // Written by the trainer before each worker starts.
  std::int32_t starter;        ///< number of the trainer's thread; its end kills the worker
  std::uint64_t notes_offset;  ///< two of the trainer's notes (ipc/notes.hpp)
  std::uint64_t note_bytes;    ///< of each; 0: there are none
  std::uint32_t
      is_kept;  ///< 1: the arena outlives the trainer, so workers lock it (Arena::lock_for_worker())
  /// Written by the trainer: 1 while it reads a state into the arrays, which are then neither old nor new.
  std::atomic<std::uint32_t> is_overwritten;
  /// Written by the trainer: 0, or 1 + the first group of a step that is prepared. The step's requests are
  /// written, and no WorkEntry. The step is submitted already if the serial of the group's request is not one
  /// that is still to come.
  std::atomic<std::uint32_t> prepared;
  std::uint32_t prepared_buffer;  ///< with its gradients
  std::uint32_t prepared_note;    ///< 1: its note is written, without a ticket
  // Written by the trainer. Counts WorkEntries since the arena was created; entry i lies at ring[i %
  // ring_capacity].
  alignas(128) std::atomic<std::uint64_t> submitted;
  std::atomic<std::uint32_t> stop;          ///< 1: finish what is submitted, then exit
  std::atomic<std::uint32_t> wants_chunks;  ///< 1: ring `done` for each chunk, not only at the end
  Doorbell work;                            ///< the worker sleeps on it
  // Written by the worker.
  alignas(128) std::atomic<std::uint64_t> completed;  ///< WorkEntries, in order
  Doorbell done;                                      ///< the trainer sleeps on it
  alignas(128) WorkerStats stats;
  /// 1: memory ran out, so what was saved last is not whole, or the trainer has given it up. The trainer
  /// clears it before it submits one.
  std::atomic<std::uint32_t> save_failed;
  /// How often a later worker has begun the last save again. The worker writes it; the trainer clears it
  /// with save_failed.
  std::atomic<std::uint32_t> save_resumptions;
  std::uint64_t image_bytes;  ///< by the trainer, at the start: of the image of the whole state
  /// Bytes of the saved area that a save uses, as a ring. The trainer writes this before it submits a save.
  std::atomic<std::uint64_t> save_room;
  std::atomic<std::uint64_t> save_released;  ///< by the trainer: it has read the image up to this byte
  /// Bytes of the saved area that have pages. The worker writes this. The trainer clears it when it frees the
  /// pages.
  std::atomic<std::uint64_t> save_reserved;
};
static_assert(offsetof(ControlBlock, arena_bytes) == 1024 && offsetof(ControlBlock, prepared) == 1120 &&
              offsetof(ControlBlock, submitted) == 1152 && offsetof(ControlBlock, completed) == 1280 &&
              offsetof(ControlBlock, stats) == 1408 && sizeof(ControlBlock) == 2048 &&
              offsetof(ControlBlock, image_bytes) == 1912);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace zf
