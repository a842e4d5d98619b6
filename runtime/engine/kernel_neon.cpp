// The lane of 4 floats: AArch64's NEON, which every such CPU has.
#if defined(__aarch64__)
#include <arm_neon.h>

#include "engine/lane_kernels.hpp"

namespace zf {
namespace {

struct NeonLane {
  using F = float32x4_t;
  static constexpr size_t width = 4;

  static F set(float x) { return vdupq_n_f32(x); }
  static F load(const float* at) { return vld1q_f32(at); }
  static void store(float* at, F value) { vst1q_f32(at, value); }
  // There is a store-pair with a hint (STNP) and no store that goes past the caches.
  static constexpr bool passes_caches = false;
  static void stream(float* at, F value) { vst1q_f32(at, value); }
  static void fence() {}

  template <ElementType kGrad>
  static F load_grad(const void* base, size_t i) {
    if constexpr (kGrad == ElementType::f32) {
      return vld1q_f32(static_cast<const float*>(base) + i);
    } else {
      const uint16x4_t half = vld1_u16(static_cast<const uint16_t*>(base) + i);
      if constexpr (kGrad == ElementType::f16) return vcvt_f32_f16(vreinterpret_f16_u16(half));
      return vreinterpretq_f32_u32(vshll_n_u16(half, 16));
    }
  }

  template <ElementType kCopy>
  static void stream_copy(void* base, size_t i, F value) {
    vst1_u16(static_cast<uint16_t*>(base) + i, narrow<kCopy>(value));
  }
  template <ElementType kCopy>
  static void store_copy(void* base, size_t i, F value) {
    stream_copy<kCopy>(base, i, value);
  }
  template <ElementType kCopy>
  static F where_rounded(const void* base, size_t i, F p, F other) {
    const uint16x4_t is_equal = vceq_u16(vld1_u16(static_cast<const uint16_t*>(base) + i), narrow<kCopy>(p));
    return vbslq_f32(vreinterpretq_u32_s32(vmovl_s16(vreinterpret_s16_u16(is_equal))), p, other);
  }

  static F add(F a, F b) { return vaddq_f32(a, b); }
  static F sub(F a, F b) { return vsubq_f32(a, b); }
  static F mul(F a, F b) { return vmulq_f32(a, b); }
  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
  static F div(F a, F b) { return vdivq_f32(a, b); }
  static F sqrt(F a) { return vsqrtq_f32(a); }
  static F nan_made_canonical(F a) {
    return vbslq_f32(vceqq_f32(a, a), a, vreinterpretq_f32_u32(vdupq_n_u32(0xffc00000U)));
  }

  using D = float64x2_t;
  static constexpr size_t double_width = 2;
  static D zero() { return vdupq_n_f64(0.0); }
  static void store_double(double* at, D value) { vst1q_f64(at, value); }
  static void add_squares(D* sums, F g) {
    const D low = vcvt_f64_f32(vget_low_f32(g));
    const D high = vcvt_high_f64_f32(g);
    sums[0] = vfmaq_f64(sums[0], low, low);
    sums[1] = vfmaq_f64(sums[1], high, high);
  }

  using W = uint32x4_t;
  struct Two {
    W first, second;
  };
  static W words(uint32_t first, uint32_t stride) {
    const uint32_t numbers[] = {0, 1, 2, 3};
    return vmlaq_n_u32(vdupq_n_u32(first), vld1q_u32(numbers), stride);
  }
  static W bits(F a) { return vreinterpretq_u32_f32(a); }
  static F floats(W a) { return vreinterpretq_f32_u32(a); }
  static W add_words(W a, W b) { return vaddq_u32(a, b); }
  static W and_words(W a, W b) { return vandq_u32(a, b); }
  static W or_words(W a, W b) { return vorrq_u32(a, b); }
  static W up(W a) { return vshlq_n_u32(a, 16); }
  static W down(W a) { return vshrq_n_u32(a, 16); }
  static W down_signed(W a) { return vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(a), 16)); }
  static W where_number(F a, W then, W otherwise) { return vbslq_u32(vceqq_f32(a, a), then, otherwise); }
  static W load_halves(const uint16_t* at) { return vmovl_u16(vld1_u16(at)); }
  static W load_signed_halves(const uint16_t* at) {
    return vreinterpretq_u32_s32(vmovl_s16(vreinterpret_s16_u16(vld1_u16(at))));
  }
  static void store_halves(uint16_t* at, W a) { vst1_u16(at, vmovn_u32(a)); }
  static W load_words(const uint16_t* at) { return vreinterpretq_u32_u16(vld1q_u16(at)); }
  static void store_words(uint16_t* at, W a) { vst1q_u16(at, vreinterpretq_u16_u32(a)); }
  static Two load_two(const uint16_t* at) {
    const uint16x8_t both = vld1q_u16(at);
    return {vshll_n_u16(vget_low_u16(both), 16), vshll_n_u16(vget_high_u16(both), 16)};
  }
  static void store_two(uint16_t* at, W first, W second) {
    vst1q_u16(at, vcombine_u16(vshrn_n_u32(first, 16), vshrn_n_u32(second, 16)));
  }
  static void stream_two(uint16_t* at, W first, W second) { store_two(at, first, second); }
  static bool has_nan(F a, F b) { return vminvq_u32(vandq_u32(vceqq_f32(a, a), vceqq_f32(b, b))) == 0; }
  static F where_equal(W a, W b, F then, F otherwise) { return vbslq_f32(vceqq_u32(a, b), then, otherwise); }
  static W set_words(uint32_t word) { return vdupq_n_u32(word); }

  static W sub_words(W a, W b) { return vsubq_u32(a, b); }
  static W min_words(W a, W b) { return vminq_u32(a, b); }
  static bool any_nan(F a, F b, F c) {
    return vminvq_u32(vandq_u32(vandq_u32(vceqq_f32(a, a), vceqq_f32(b, b)), vceqq_f32(c, c))) == 0;
  }
  static uint32_t whole(W codes) {
    const uint32_t bits_of_lanes[] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vceqq_u32(codes, set_words(kRollbackWhole)), vld1q_u32(bits_of_lanes)));
  }
  static void store_codes(uint8_t* at, const W* p, const W* m, const W* v) {
    store_codes_singly<width>(at, p, m, v, [](uint32_t* to, W a) { vst1q_u32(to, a); });
  }
  static void load_codes(const uint8_t* at, W* p, W* m, W* v) {
    load_codes_singly<width>(at, p, m, v, [](const uint32_t* from) { return vld1q_u32(from); });
  }

  struct S {
    uint64x2_t of_low;
    uint64x2_t of_high;
  };
  static S no_sums() { return {vdupq_n_u64(0), vdupq_n_u64(0)}; }
  static void add_products(S& sums, W a, W b) {
    sums.of_low = vmlal_u32(sums.of_low, vget_low_u32(a), vget_low_u32(b));
    sums.of_high = vmlal_high_u32(sums.of_high, a, b);
  }
  static uint64_t total(S sums) { return vaddvq_u64(vaddq_u64(sums.of_low, sums.of_high)); }

 private:
  template <ElementType kCopy>
  static uint16x4_t narrow(F value) {
    return kCopy == ElementType::bf16 ? bf16(value) : vreinterpret_u16_f16(vcvt_f16_f32(value));
  }

  static uint16x4_t bf16(F value) {
    const uint32x4_t bits = vreinterpretq_u32_f32(value);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vshrn_n_u32(vbslq_u32(vceqq_f32(value, value), rounded, quiet), 16);
  }
};

}  // namespace

constinit const KernelSet kNeonKernels = lane_kernels<NeonLane>();

}  // namespace zf
#endif
