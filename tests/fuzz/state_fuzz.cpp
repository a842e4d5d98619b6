// State files: any bytes are the state of these groups or an error, and the program goes on. The size and the
// checksums are set right after each mutation, since with wrong ones nothing behind them would ever be read.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "base/crc32.hpp"
#include "fuzzed_file.hpp"
#include "zf_runtime.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

// docs/recovery.md: a header of 40 bytes, then one record per group.
constexpr std::size_t kHeader = 40;
constexpr std::size_t kFileBytes = 16;
constexpr std::size_t kArraysOffset = 24;
constexpr std::size_t kGroupsCrc = 32;
constexpr std::size_t kHeaderCrc = 36;

/// Opens 64 parameters with one or two sets of moments, in a state format, and ends the process that would
/// step over them: reading a state needs none.
zf_runtime* open_one_group(std::int32_t moment_sets, std::int32_t state_format = ZF_STATE_FP32) {
  ::setenv("ZF_TUNE", "off", 1);  // no plan
  zf_group group = ZF_GROUP_INIT;
  group.elements = 64;
  group.moment_sets = moment_sets;
  group.state_format = state_format;
  if (state_format != ZF_STATE_FP32) group.copy_type = ZF_BF16;
  zf_runtime* handle = nullptr;
  if (zf_open(nullptr, &group, 1, &handle) != ZF_OK || zf_end(handle) != ZF_OK) std::abort();
  return handle;
}

void put_crc(std::span<std::uint8_t> file, std::size_t at, std::size_t from, std::size_t to) {
  const std::uint32_t crc = zf::crc32(0, std::as_bytes(file.subspan(from, to - from)));
  std::memcpy(file.data() + at, &crc, sizeof crc);
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned) {
  const std::span file(data, LLVMFuzzerMutate(data, size, max_size));
  if (file.size() < kHeader) return file.size();
  const std::uint64_t file_bytes = file.size();
  std::memcpy(file.data() + kFileBytes, &file_bytes, sizeof file_bytes);
  std::uint64_t arrays_offset = 0;
  std::memcpy(&arrays_offset, file.data() + kArraysOffset, sizeof arrays_offset);
  put_crc(file, kGroupsCrc, kHeader, std::clamp<std::uint64_t>(arrays_offset, kHeader, file.size()));
  put_crc(file, kHeaderCrc, 0, kHeaderCrc);
  return file.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::array handles = {open_one_group(1), open_one_group(2),
                                     open_one_group(1, ZF_STATE_BF16_SPLIT)};
  const auto& file = fuzzed_file(data, size);
  for (zf_runtime* const handle : handles) {
    const zf_status status = zf_import_state(handle, file.c_str());
    if (status != ZF_OK && status != ZF_ERROR_STATE) std::abort();
  }
  return 0;
}
