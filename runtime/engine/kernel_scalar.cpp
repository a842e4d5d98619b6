// The reference lane: one float at a time. The C library supplies the fused multiply-add on CPUs without it.
#include <math.h>

#include "engine/half.hpp"
#include "engine/lane_kernels.hpp"

namespace zf {
namespace {

struct ScalarLane {
  using F = float;
  static constexpr size_t width = 1;

  static F set(float x) { return x; }
  static F load(const float* at) { return *at; }
  static void store(float* at, F value) { *at = value; }
  static constexpr bool passes_caches = false;
  static void stream(float* at, F value) { *at = value; }
  static void fence() {}

  template <ElementType kGrad>
  static F load_grad(const void* base, size_t i) {
    if constexpr (kGrad == ElementType::bf16) return f32_of_bf16(static_cast<const uint16_t*>(base)[i]);
    if constexpr (kGrad == ElementType::f16) return f32_of_f16(static_cast<const uint16_t*>(base)[i]);
    return static_cast<const float*>(base)[i];
  }

  template <ElementType kCopy>
  static void stream_copy(void* base, size_t i, F value) {
    static_cast<uint16_t*>(base)[i] = narrow<kCopy>(value);
  }
  template <ElementType kCopy>
  static void store_copy(void* base, size_t i, F value) {
    static_cast<uint16_t*>(base)[i] = narrow<kCopy>(value);
  }
  template <ElementType kCopy>
  static F where_rounded(const void* base, size_t i, F p, F other) {
    return static_cast<const uint16_t*>(base)[i] == narrow<kCopy>(p) ? p : other;
  }

  static F add(F a, F b) { return a + b; }
  static F sub(F a, F b) { return a - b; }
  static F mul(F a, F b) { return a * b; }
  static F fma(F a, F b, F c) { return __builtin_fmaf(a, b, c); }
  static F div(F a, F b) { return a / b; }
  static F sqrt(F a) { return __builtin_sqrtf(a); }
  static F nan_made_canonical(F a) { return a == a ? a : std::bit_cast<float>(0xffc00000U); }

  using D = double;
  static constexpr size_t double_width = 1;
  static D zero() { return 0.0; }
  static void store_double(double* at, D value) { *at = value; }
  static void add_squares(D* sums, F g) { *sums += static_cast<double>(g) * static_cast<double>(g); }

  using W = uint32_t;
  struct Two {
    W first, second;
  };
  static W words(uint32_t first, uint32_t) { return first; }
  static W bits(F a) { return std::bit_cast<W>(a); }
  static F floats(W a) { return std::bit_cast<F>(a); }
  static W add_words(W a, W b) { return a + b; }
  static W and_words(W a, W b) { return a & b; }
  static W or_words(W a, W b) { return a | b; }
  static W up(W a) { return a << 16; }
  static W down(W a) { return a >> 16; }
  static W down_signed(W a) { return static_cast<W>(static_cast<int32_t>(a) >> 16); }
  static W where_number(F a, W then, W otherwise) { return a == a ? then : otherwise; }
  static W load_halves(const uint16_t* at) { return *at; }
  static W load_signed_halves(const uint16_t* at) { return static_cast<W>(static_cast<int16_t>(*at)); }
  static void store_halves(uint16_t* at, W a) { *at = static_cast<uint16_t>(a); }
  static W load_words(const uint16_t* at) {
    W a;
    memcpy(&a, at, sizeof a);
    return a;
  }
  static void store_words(uint16_t* at, W a) { memcpy(at, &a, sizeof a); }
  static Two load_two(const uint16_t* at) { return {up(at[0]), up(at[1])}; }
  static void store_two(uint16_t* at, W first, W second) {
    at[0] = static_cast<uint16_t>(down(first));
    at[1] = static_cast<uint16_t>(down(second));
  }
  static void stream_two(uint16_t* at, W first, W second) { store_two(at, first, second); }
  static bool has_nan(F a, F b) { return a != a || b != b; }
  static F where_equal(W a, W b, F then, F otherwise) { return a == b ? then : otherwise; }
  static W set_words(uint32_t word) { return word; }

  static W sub_words(W a, W b) { return a - b; }
  static W min_words(W a, W b) { return a < b ? a : b; }
  static bool any_nan(F a, F b, F c) { return a != a || b != b || c != c; }
  static uint32_t whole(W codes) { return codes == kRollbackWhole ? 1 : 0; }
  static void store_codes(uint8_t* at, const W* p, const W* m, const W* v) {
    store_codes_singly<width>(at, p, m, v, [](uint32_t* to, W a) { *to = a; });
  }
  static void load_codes(const uint8_t* at, W* p, W* m, W* v) {
    load_codes_singly<width>(at, p, m, v, [](const uint32_t* from) { return *from; });
  }

  using S = uint64_t;
  static S no_sums() { return 0; }
  static void add_products(S& sums, W a, W b) { sums += static_cast<uint64_t>(a) * b; }
  static uint64_t total(S sums) { return sums; }

 private:
  template <ElementType kCopy>
  static uint16_t narrow(F value) {
    return kCopy == ElementType::bf16 ? bf16_of_f32(value) : f16_of_f32(value);
  }
};

}  // namespace

constinit const KernelSet kScalarKernels = lane_kernels<ScalarLane>();

}  // namespace zf
