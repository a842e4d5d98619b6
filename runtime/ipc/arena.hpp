// The shared memory of one trainer and its worker: one memfd, which has no name in any file system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.hpp"
#include "base/file_descriptor.hpp"
#include "ipc/arena_layout.hpp"
#include "ipc/control_block.hpp"

namespace zf {

/// Owns the descriptor and the mapping. The memory is freed when no process maps or holds it any more.
class Arena {
 public:
  /// Creates an arena, in the trainer: seals it against growing and shrinking, and writes the control area
  /// from `layout`. The arrays read as zero and have no pages yet (see reserve()). Throws
  /// Error(runtime_error) that says how much was asked for.
  static Arena create(const ArenaLayout& layout);

  /// Maps an existing arena, in the worker. Throws Error(usage) if the file is not an arena, is not sealed,
  /// has another version, or has offsets that do not fit its size. The error about another version is also
  /// left in the prefix, where the trainer reads it.
  static Arena attach(FileDescriptor fd);

  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&&) = delete;
  /// Unmaps in pieces, so that other threads which map or unmap memory wait for a piece at most.
  ~Arena();

  int fd() const { return fd_.get(); }
  /// Returns the bytes of control data and arrays.
  std::size_t bytes() const { return bytes_; }
  ControlBlock& control() const { return *at<ControlBlock>(0); }
  GroupBlock& group(std::size_t index) const { return at<GroupBlock>(control().groups_offset)[index]; }
  std::span<const ElementRange> ranges(const GroupBlock& group) const {
    return {at<ElementRange>(group.ranges_offset), group.range_count};
  }
  /// Returns the ring's slot for entry number `count`.
  WorkEntry& entry(std::uint64_t count) const {
    return at<WorkEntry>(control().ring_offset)[count % control().ring_capacity];
  }

  MemberProgress& member(std::size_t index) const {
    return at<MemberProgress>(control().members_offset)[index];
  }

  template <class T>
  T* at(std::uint64_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }

  /// Returns whether there is a saved area: `ulimit -f` or `ulimit -v` may refuse it.
  bool has_saved_area() const { return mapped_bytes_ != bytes_ || control().image_bytes == 0; }
  /// Returns the place of a part of the image in the saved area. It lies in one unit, or the room is for the
  /// whole image. The saved area has no pages until reserve() gives it some.
  ArrayPlace saved(std::uint64_t begin, std::uint64_t bytes) const {
    return {bytes_ + begin % control().save_room, bytes};
  }
  /// Takes the pages of the saved area away again. Returns false if the kernel did not. Thread-safe.
  bool free_saved() const noexcept;
  /// Frees a part of it, which takes milliseconds. Returns where the next one begins; `at` if that fails.
  std::size_t free_saved_part(std::size_t at) const noexcept;
  /// Takes the pages of the logs of speculated steps away, if the kernel does. No worker may use the arena.
  void free_logs() const noexcept;
  std::size_t saved_bytes() const { return mapped_bytes_ - bytes_; }

  /// Gives pages to a range, by the memory policy of the calling thread, and puts them in this process's page
  /// tables. The contents stay. The range is rounded outwards to whole pages. If memory runs out this is an
  /// error here, and not the SIGBUS that a first touch would raise. Throws Error(runtime_error) that says how
  /// much was asked for. Thread-safe.
  void reserve(std::uint64_t offset, std::uint64_t bytes) const;

  /// Puts the pages of a range, which have been reserved already, in this process's page tables. It costs a
  /// tenth of the faults that it saves: the kernel maps sixteen small pages, or one huge page, at once. It is
  /// a hint: what fails here is done by the first touch. Thread-safe.
  void map_reserved(std::uint64_t offset, std::uint64_t bytes) const noexcept;

  /// Waits until no other process has locked this arena as its worker, and locks it until this process ends.
  /// Returns false at the deadline (a point of now_ns()). No descriptor of this arena may be closed before
  /// this process ends: that would unlock it.
  bool lock_for_worker(Nanoseconds deadline) const;
  /// Returns whether another process has locked this arena as its worker.
  bool has_worker() const;

  /// Closes the descriptor, and hides the mapping from children that are forked from now on. Otherwise such a
  /// child would keep the memory until it ends. Returns false if the kernel did not hide the mapping. Only
  /// the move constructor and the destructor may follow.
  bool keep_from_children() noexcept;

 private:
  /// Maps all of the file or, where that is refused, only `bytes`.
  Arena(FileDescriptor fd, std::size_t file_bytes, std::size_t bytes);
  void reserve_chunk(std::uint64_t begin, std::uint64_t bytes) const;
  void read_each_page(std::uint64_t begin, std::uint64_t bytes) const noexcept;
  /// Returns whether the kernel did.
  bool free_pages(const ArrayPlace& place) const noexcept;

  FileDescriptor fd_;
  std::size_t mapped_bytes_ = 0;  ///< with the saved area
  std::size_t bytes_ = 0;
  std::byte* base_ = nullptr;
};

/// Returns whether the worker has saved the image up to a byte, as far as it is the group's.
bool is_saved(const Arena& arena, std::size_t group, std::uint64_t end);

}  // namespace zf
