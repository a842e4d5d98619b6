// The state file: parameters, moments and step counts of all groups. docs/recovery.md specifies its
// bytes; a change of any of them needs another version.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "abi/state_values.hpp"
#include "ipc/arena.hpp"
#include "os/atomic_file.hpp"

namespace zf {

inline constexpr std::array<char, 8> kStateMagic = {'Z', 'F', 'S', 'T', 'A', 'T', 'E', '\n'};
inline constexpr std::uint32_t kStateVersion = 1;
/// Arrays begin at multiples of this, as in the image of the state. The bytes between them are zero.
inline constexpr std::uint64_t kStatePage = kImagePage;

struct StateHeader {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t group_count;
  std::uint64_t file_bytes;
  std::uint64_t arrays_offset;  ///< where the first array begins
  std::uint32_t groups_crc;     ///< of the bytes between the header and arrays_offset
  std::uint32_t header_crc;     ///< of the bytes before it
};
static_assert(sizeof(StateHeader) == 40 && offsetof(StateHeader, header_crc) == 36);

inline constexpr std::size_t kOneSetArrays = 3;  ///< of kStateArrays; the others are those of set 1

struct StateArray {
  std::uint64_t offset;
  std::uint32_t crc;  ///< of the array and the zeros up to the next page
  std::uint32_t unused;
};

/// The record of a group. The arrays of set 1 are zeros if there is one set.
struct StateGroup {
  std::uint64_t elements;
  std::uint64_t step;         ///< the number of the last one
  std::uint32_t moment_sets;  ///< 1 or 2
  /// The moments are bf16 in the file if they are in this format. Parameters are f32 in any case: that has
  /// the bytes of both halves of split masters.
  StateFormat format;
  std::uint64_t first_element;  ///< when the file was written
  std::array<StateArray, kStateArrays.size()> arrays;
};
static_assert(sizeof(StateArray) == 16 && sizeof(StateGroup) == 112 && offsetof(StateGroup, arrays) == 32);

/// Writes the state. Call it only while no work is submitted. Throws Error(runtime_error); the file that was
/// there before is then untouched.
void write_state_file(AtomicFile& file, const Arena& arena);

/// Writes the saved copy of the state, and lets the worker use the memory of what is written. Throws what
/// these throw. await_saved: waits until the worker has saved a group's part of the image up to a byte.
/// await_steps: waits until it has noted the steps; nothing may be replaced if it throws.
void write_saved_file(AtomicFile& file, const Arena& arena,
                      const std::function<void(std::size_t, std::uint64_t)>& await_saved,
                      const std::function<void()>& await_steps);

/// Reads the state into the buffers, in their state format, and returns the number of each group's last step,
/// which the caller keeps. Call it only while no work is submitted. Verifies the whole file before it changes
/// anything. Throws AbiError(ZF_ERROR_STATE) if the file is damaged, has another version or other groups,
/// Error(usage) if there is no such file, and Error(runtime_error) if it cannot be read. A file that fails or
/// changes after it was verified may leave the buffers partly overwritten, and the AbiError says so.
std::vector<std::uint64_t> read_state_file(const std::filesystem::path& path, const Arena& arena);

}  // namespace zf
