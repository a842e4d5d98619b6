// The lane of 8 floats: AVX2, FMA and F16C.
#if defined(__x86_64__)
#include <immintrin.h>

#include "engine/lane_kernels.hpp"

namespace zf {
namespace {

struct Avx2Lane {
  using F = __m256;
  static constexpr size_t width = 8;

  static F set(float x) { return _mm256_set1_ps(x); }
  static F load(const float* at) { return _mm256_loadu_ps(at); }
  static void store(float* at, F value) { _mm256_storeu_ps(at, value); }
  static constexpr bool passes_caches = true;
  static void stream(float* at, F value) { _mm256_stream_ps(at, value); }
  static void fence() { _mm_sfence(); }

  template <ElementType kGrad>
  static F load_grad(const void* base, size_t i) {
    if constexpr (kGrad == ElementType::f32) {
      return _mm256_loadu_ps(static_cast<const float*>(base) + i);
    } else {
      const auto* at = reinterpret_cast<const __m128i*>(static_cast<const uint16_t*>(base) + i);
      const __m128i half = _mm_loadu_si128(at);
      if constexpr (kGrad == ElementType::f16) return _mm256_cvtph_ps(half);
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
    }
  }

  template <ElementType kCopy>
  static void stream_copy(void* base, size_t i, F value) {
    auto* at = reinterpret_cast<__m128i*>(static_cast<uint16_t*>(base) + i);
    _mm_stream_si128(at, narrow<kCopy>(value));
  }
  template <ElementType kCopy>
  static void store_copy(void* base, size_t i, F value) {
    auto* at = reinterpret_cast<__m128i*>(static_cast<uint16_t*>(base) + i);
    _mm_storeu_si128(at, narrow<kCopy>(value));
  }
  template <ElementType kCopy>
  static F where_rounded(const void* base, size_t i, F p, F other) {
    const auto* at = reinterpret_cast<const __m128i*>(static_cast<const uint16_t*>(base) + i);
    const __m128i is_equal = _mm_cmpeq_epi16(_mm_loadu_si128(at), narrow<kCopy>(p));
    return _mm256_blendv_ps(other, p, _mm256_castsi256_ps(_mm256_cvtepi16_epi32(is_equal)));
  }

  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F sqrt(F a) { return _mm256_sqrt_ps(a); }
  static F nan_made_canonical(F a) {
    const F nan = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(0xffc00000U)));
    return _mm256_blendv_ps(a, nan, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  }

  using D = __m256d;
  static constexpr size_t double_width = 4;
  static D zero() { return _mm256_setzero_pd(); }
  static void store_double(double* at, D value) { _mm256_storeu_pd(at, value); }
  static void add_squares(D* sums, F g) {
    const D low = _mm256_cvtps_pd(_mm256_castps256_ps128(g));
    const D high = _mm256_cvtps_pd(_mm256_extractf128_ps(g, 1));
    sums[0] = _mm256_fmadd_pd(low, low, sums[0]);
    sums[1] = _mm256_fmadd_pd(high, high, sums[1]);
  }

  using W = __m256i;
  struct Two {
    W first, second;
  };
  static W words(uint32_t first, uint32_t stride) {
    return _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(first)),
                            _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                                               _mm256_set1_epi32(static_cast<int>(stride))));
  }
  static W bits(F a) { return _mm256_castps_si256(a); }
  static F floats(W a) { return _mm256_castsi256_ps(a); }
  static W add_words(W a, W b) { return _mm256_add_epi32(a, b); }
  static W and_words(W a, W b) { return _mm256_and_si256(a, b); }
  static W or_words(W a, W b) { return _mm256_or_si256(a, b); }
  static W up(W a) { return _mm256_slli_epi32(a, 16); }
  static W down(W a) { return _mm256_srli_epi32(a, 16); }
  static W down_signed(W a) { return _mm256_srai_epi32(a, 16); }
  static W where_number(F a, W then, W otherwise) {
    return bits(_mm256_blendv_ps(floats(otherwise), floats(then), _mm256_cmp_ps(a, a, _CMP_ORD_Q)));
  }
  static W load_halves(const uint16_t* at) {
    return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
  static W load_signed_halves(const uint16_t* at) {
    return _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
  static void store_halves(uint16_t* at, W a) {
    const W lower = and_words(a, _mm256_set1_epi32(0xffff));  // the packing below saturates
    _mm_storeu_si128(reinterpret_cast<__m128i*>(at),
                     _mm_packus_epi32(_mm256_castsi256_si128(lower), _mm256_extracti128_si256(lower, 1)));
  }
  static W load_words(const uint16_t* at) { return _mm256_loadu_si256(reinterpret_cast<const W*>(at)); }
  static void store_words(uint16_t* at, W a) { _mm256_storeu_si256(reinterpret_cast<W*>(at), a); }
  static Two load_two(const uint16_t* at) {
    const W spread = _mm256_permute4x64_epi64(load_words(at), 0xd8);  // the unpacking stays in 128 bits
    const W zero = _mm256_setzero_si256();
    return {_mm256_unpacklo_epi16(zero, spread), _mm256_unpackhi_epi16(zero, spread)};
  }
  static W two(W first, W second) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(down(first), down(second)), 0xd8);
  }
  static void store_two(uint16_t* at, W first, W second) { store_words(at, two(first, second)); }
  static void stream_two(uint16_t* at, W first, W second) {
    _mm256_stream_si256(reinterpret_cast<W*>(at), two(first, second));
  }
  static bool has_nan(F a, F b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q)) != 0; }
  static F where_equal(W a, W b, F then, F otherwise) {
    return _mm256_blendv_ps(otherwise, then, floats(_mm256_cmpeq_epi32(a, b)));
  }
  static W set_words(uint32_t word) { return _mm256_set1_epi32(static_cast<int>(word)); }

  static W sub_words(W a, W b) { return _mm256_sub_epi32(a, b); }
  static W min_words(W a, W b) { return _mm256_min_epu32(a, b); }
  static bool any_nan(F a, F b, F c) {
    return _mm256_movemask_ps(
               _mm256_or_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q), _mm256_cmp_ps(c, c, _CMP_UNORD_Q))) != 0;
  }
  static uint32_t whole(W codes) {
    return static_cast<uint32_t>(
        _mm256_movemask_ps(floats(_mm256_cmpeq_epi32(codes, set_words(kRollbackWhole)))));
  }
  static void store_codes(uint8_t* at, const W* p, const W* m, const W* v) {
    const __m128i low =
        bytes(or_words(p[0], _mm256_slli_epi32(m[0], 4)), or_words(p[1], _mm256_slli_epi32(m[1], 4)));
    const __m128i pairs = _mm_maddubs_epi16(bytes(v[0], v[1]), _mm_set1_epi16(0x1001));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(at), low);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(at + 16), _mm_packus_epi16(pairs, pairs));
  }
  static void load_codes(const uint8_t* at, W* p, W* m, W* v) {
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i pairs = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at + 16));
    const __m128i each = _mm_and_si128(_mm_unpacklo_epi8(pairs, _mm_srli_epi16(pairs, 4)), _mm_set1_epi8(15));
    for (int k = 0; k < 2; ++k) {
      const W both = _mm256_cvtepu8_epi32(k == 0 ? low : _mm_srli_si128(low, 8));
      p[k] = and_words(both, set_words(15));
      m[k] = _mm256_srli_epi32(both, 4);
      v[k] = _mm256_cvtepu8_epi32(k == 0 ? each : _mm_srli_si128(each, 8));
    }
  }

  struct S {
    W of_even;
    W of_odd;
  };
  static S no_sums() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static void add_products(S& sums, W a, W b) {
    sums.of_even = _mm256_add_epi64(sums.of_even, _mm256_mul_epu32(a, b));
    const W odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
    sums.of_odd = _mm256_add_epi64(sums.of_odd, odd);
  }
  static uint64_t total(S sums) {
    const W both = _mm256_add_epi64(sums.of_even, sums.of_odd);
    alignas(32) uint64_t each[4];
    _mm256_store_si256(reinterpret_cast<W*>(each), both);
    uint64_t all = 0;
    for (const uint64_t sum : each) all += sum;
    return all;
  }

 private:
  /// Returns the words of both, each below 256, as bytes.
  static __m128i bytes(W a, W b) {
    const W halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8);
    return _mm_packus_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
  }

  static constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

  template <ElementType kCopy>
  static __m128i narrow(F value) {
    return kCopy == ElementType::bf16 ? bf16(value) : _mm256_cvtps_ph(value, kNearest);
  }

  static __m128i bf16(F value) {
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    const __m256i upper = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
  }
};

}  // namespace

constinit const KernelSet kAvx2Kernels = lane_kernels<Avx2Lane>();

}  // namespace zf
#endif
