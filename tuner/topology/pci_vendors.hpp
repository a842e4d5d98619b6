// The vendors of GPUs by their PCI numbers: Gpu::vendor_id.
#pragma once

namespace zf {

constexpr int kNvidia = 0x10de;
constexpr int kAmd = 0x1002;
constexpr int kIntel = 0x8086;
constexpr int kHabana = 0x1da3;  ///< Gaudi
constexpr int kHuawei = 0x19e5;  ///< Ascend

}  // namespace zf
