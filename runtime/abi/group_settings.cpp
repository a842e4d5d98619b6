#include "abi/group_settings.hpp"

#include <string_view>
#include <utility>
#include <vector>

#include "abi/status.hpp"
#include "abi/versioned.hpp"
#include "base/format.hpp"

namespace zf {
namespace {

void require(bool good, std::size_t index, std::string_view field, double value, std::string_view must) {
  if (good) return;
  throw AbiError(ZF_ERROR_USAGE, format_text("group {}: {} is {}; it must be {}", index, field, value, must));
}

}  // namespace

zf_group read_group(const zf_group* given, std::size_t index) {
  static constexpr zf_group defaults = ZF_GROUP_INIT;
  zf_group group = read_versioned(given, defaults, sizeof defaults, "zf_group");
  require(group.grad_type >= ZF_F32 && group.grad_type <= ZF_F16, index, "grad_type", group.grad_type,
          "ZF_F32, ZF_BF16 or ZF_F16");
  require(group.copy_type == ZF_NONE || group.copy_type == ZF_BF16 || group.copy_type == ZF_F16, index,
          "copy_type", group.copy_type, "ZF_NONE, ZF_BF16 or ZF_F16");
  require(group.moment_sets >= 0 && group.moment_sets <= static_cast<int>(kMaxMomentSets), index,
          "moment_sets", group.moment_sets, "1 or 2, or 0 for 1");
  if (group.moment_sets == 0) group.moment_sets = 1;
  require(group.grad_buffers >= 0 && group.grad_buffers <= static_cast<int>(kGradBuffers), index,
          "grad_buffers", group.grad_buffers, "1 or 2, or 0 for 2");
  if (group.grad_buffers == 0) group.grad_buffers = static_cast<int>(kGradBuffers);
  require(group.moment_sets <= group.grad_buffers, index, "moment_sets", group.moment_sets,
          "at most grad_buffers");
  require(group.state_format >= ZF_STATE_FP32 && group.state_format <= ZF_STATE_BF16_SPLIT, index,
          "state_format", group.state_format, "ZF_STATE_FP32, _BF16, _SPLIT or _BF16_SPLIT");
  require(group.speculative <= 1, index, "speculative", group.speculative, "0 or 1");
  return group;
}

std::vector<zf_group> read_groups(const zf_group* given, std::size_t count) {
  if (given == nullptr || count == 0)
    throw AbiError(ZF_ERROR_USAGE, "no groups", "give zf_open at least one");
  const std::size_t stride = given->struct_size;
  std::vector<zf_group> groups;
  for (std::size_t i = 0; i < count; ++i) {
    const auto* const at = reinterpret_cast<const unsigned char*>(given) + i * stride;
    const auto* const group = reinterpret_cast<const zf_group*>(at);
    std::uint32_t size = 0;
    std::memcpy(&size, at, sizeof size);  // a stride that is no multiple of 8 leaves the struct misaligned
    if (size != stride) {
      throw AbiError(ZF_ERROR_ABI,
                     format_text("group {}: struct_size is {}, and that of group 0 is {}", i, size, stride),
                     "set it with ZF_GROUP_INIT");
    }
    groups.push_back(read_group(group, i));
    require(groups.back().range_count == 0 || groups.back().ranges != nullptr, i, "range_count",
            static_cast<double>(groups.back().range_count), "0 without ranges");
  }
  return groups;
}

GroupShape shape_of(const zf_group& group) {
  std::vector<ElementRange> ranges;
  for (std::size_t i = 0; i < group.range_count; ++i)
    ranges.push_back({group.ranges[i].position, group.ranges[i].first_element});
  return {.elements = group.elements,
          .grad_type = static_cast<ElementType>(group.grad_type),
          .copy_type = static_cast<ElementType>(group.copy_type),
          .stale = group.stale != 0,
          .moment_sets = static_cast<std::uint32_t>(group.moment_sets),
          .grad_buffers = static_cast<std::uint32_t>(group.grad_buffers),
          .format = static_cast<StateFormat>(group.state_format),
          .first_element = group.first_element,
          .speculative = group.speculative != 0,
          .ranges = std::move(ranges)};
}

}  // namespace zf
