// The state file: parameters, moments and step counts of all groups. docs/state-format.md specifies its
// bytes; a change of any of them needs another kStateVersion.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "ipc/arena.hpp"
#include "submissions.hpp"

namespace zf {

inline constexpr std::array<char, 8> kStateMagic = {'Z', 'F', 'S', 'T', 'A', 'T', 'E', '\n'};
inline constexpr std::uint32_t kStateVersion = 1;
/// Arrays begin at multiples of it; what is between them is zero.
inline constexpr std::uint64_t kStatePage = 4096;

struct StateHeader {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t group_count;
  std::uint64_t file_bytes;
  std::uint64_t arrays_offset;  ///< of the first one
  std::uint32_t groups_crc;     ///< of the bytes from the header's end to arrays_offset
  std::uint32_t header_crc;     ///< of the bytes before it
};
static_assert(sizeof(StateHeader) == 40 && offsetof(StateHeader, header_crc) == 36);

/// What a state file holds of each group, in this order.
inline constexpr std::array kStateArrays = {ArrayKind::params, ArrayKind::moment1, ArrayKind::moment2};

struct StateArray {
  std::uint64_t offset;
  std::uint32_t crc;  ///< of its bytes and the zeros up to the next page
  std::uint32_t unused;
};

struct StateGroup {
  std::uint64_t elements;
  AdamProgress progress;
  std::uint32_t mode;  ///< ZF_ADAM or ZF_ADAMW
  std::uint32_t bias_correction;
  float lr, beta1, beta2, eps, weight_decay;  ///< of the moment of writing
  std::uint32_t unused;
  std::array<StateArray, kStateArrays.size()> arrays;
};
static_assert(sizeof(StateArray) == 16 && sizeof(StateGroup) == 112 && offsetof(StateGroup, arrays) == 64);

/// While nothing is under way. Throws Error(runtime_error): the file that was there before is untouched then.
void write_state(const std::filesystem::path& path, const Arena& arena, const Submissions& groups);

/// While nothing is under way. The whole file is verified before anything is changed. Throws
/// AbiError(ZF_ERROR_STATE): damaged, of another version, of other groups; Error(usage): no file there.
void read_state(const std::filesystem::path& path, const Arena& arena, const Submissions& groups);

}  // namespace zf
