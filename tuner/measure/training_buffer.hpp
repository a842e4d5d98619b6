// The memory that the training side of a measurement moves: gradients and copies.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zf {

/// Private memory of a training side: fp32 sums, bf16 gradients, and two areas to copy between. Its owner
/// says which threads touch which part of it first.
class TrainingBuffer {
 public:
  /// Copies are made in pieces of this size.
  static constexpr std::size_t kCopyBytes = std::size_t{256} << 10;
  /// Bytes that add() moves per element: a bf16 gradient is read, an fp32 sum is read and written.
  static constexpr std::size_t kBytesPerAdded = 10;

  /// Maps about `bytes`, at least 1 MiB. Throws Error(runtime_error) if memory is short.
  explicit TrainingBuffer(std::size_t bytes);
  ~TrainingBuffer();
  TrainingBuffer(const TrainingBuffer&) = delete;
  TrainingBuffer& operator=(const TrainingBuffer&) = delete;

  /// Returns how many gradients there are.
  std::size_t elements() const { return elements_; }
  /// Writes first values for the elements [begin, end).
  void touch(std::size_t begin, std::size_t end);
  /// Adds the gradients [begin, end) to the sums, as a job does with those that came from the GPU.
  void add(std::size_t begin, std::size_t end);
  /// Copies one piece with stream_copy(); pieces follow one another and begin again at the end.
  void copy_piece();

 private:
  float* sums() const { return reinterpret_cast<float*>(base_); }
  std::uint16_t* gradients() const { return reinterpret_cast<std::uint16_t*>(base_ + elements_ * 4); }
  char* copy_from() const { return base_ + elements_ * 6; }
  char* copy_to() const { return base_ + elements_ * 7; }

  std::size_t elements_;
  std::size_t bytes_ = 0;
  std::size_t place_ = 0;  ///< of the next piece, in bytes
  char* base_ = nullptr;
};

/// Copies `bytes`, a multiple of 64, with non-temporal stores if the CPU has them. They read each byte of
/// `from` once and write each byte of `to` once, without first reading the line that they overwrite. So the
/// copy leaves the caches alone, as the DMA engine of a GPU does. Precondition: both are aligned to 64 bytes
/// and do not overlap.
void stream_copy(void* to, const void* from, std::size_t bytes);

}  // namespace zf
