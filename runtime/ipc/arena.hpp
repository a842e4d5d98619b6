// The shared-memory file of one trainer and its worker: one memfd, without a name anywhere.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/file_descriptor.hpp"
#include "ipc/arena_layout.hpp"
#include "ipc/control_block.hpp"

namespace zf {

/// Owns the descriptor and the mapping. The memory goes when the last process that maps or holds it does.
class Arena {
 public:
  /// By the trainer: made, sealed against growing and shrinking, control area written from `layout`. The
  /// arrays read as zero and have no pages yet: see reserve().
  /// Throws Error(runtime_error), saying how much was asked for.
  static Arena create(const ArenaLayout& layout);

  /// By the worker. Throws Error(usage): no arena, not sealed, another version, or offsets that do not fit.
  /// With another version the error is left in the prefix as well.
  static Arena attach(FileDescriptor fd);

  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&&) = delete;
  ~Arena();

  int fd() const { return fd_.get(); }
  std::size_t bytes() const { return bytes_; }
  ControlBlock& control() const { return *at<ControlBlock>(0); }
  GroupBlock& group(std::size_t index) const { return at<GroupBlock>(control().groups_offset)[index]; }
  /// The ring's place for the entry with this count.
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

  /// Gives pages to a range, taken from the memory policy (and with it, the node) of the calling thread,
  /// and puts them in this process's page tables; contents stay. Rounded outwards to pages.
  /// Memory that runs out here is an error, not the SIGBUS that a first touch would bring.
  /// Throws Error(runtime_error), saying how much was asked for. Thread-safe.
  void reserve(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  Arena(FileDescriptor fd, std::size_t bytes);
  void reserve_chunk(std::uint64_t begin, std::uint64_t bytes) const;

  FileDescriptor fd_;
  std::size_t bytes_ = 0;
  std::byte* base_ = nullptr;
};

}  // namespace zf
