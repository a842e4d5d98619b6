// The lane of 16 floats: AVX-512 F, BW, DQ and VL.
#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// About GCC's own header: https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105593
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include "engine/lane_kernels.hpp"

namespace zf {
namespace {

struct Avx512Lane {
  using F = __m512;
  static constexpr size_t width = 16;

  static F set(float x) { return _mm512_set1_ps(x); }
  static F load(const float* at) { return _mm512_loadu_ps(at); }
  static void store(float* at, F value) { _mm512_storeu_ps(at, value); }
  static constexpr bool passes_caches = true;
  static void stream(float* at, F value) { _mm512_stream_ps(at, value); }
  static void fence() { _mm_sfence(); }

  template <ElementType kGrad>
  static F load_grad(const void* base, size_t i) {
    if constexpr (kGrad == ElementType::f32) {
      return _mm512_loadu_ps(static_cast<const float*>(base) + i);
    } else {
      const auto* at = reinterpret_cast<const __m256i*>(static_cast<const uint16_t*>(base) + i);
      const __m256i half = _mm256_loadu_si256(at);
      if constexpr (kGrad == ElementType::f16) return _mm512_cvtph_ps(half);
      return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
    }
  }

  template <ElementType kCopy>
  static void stream_copy(void* base, size_t i, F value) {
    auto* at = reinterpret_cast<__m256i*>(static_cast<uint16_t*>(base) + i);
    _mm256_stream_si256(at, narrow<kCopy>(value));
  }
  template <ElementType kCopy>
  static void store_copy(void* base, size_t i, F value) {
    auto* at = reinterpret_cast<__m256i*>(static_cast<uint16_t*>(base) + i);
    _mm256_storeu_si256(at, narrow<kCopy>(value));
  }
  template <ElementType kCopy>
  static F where_rounded(const void* base, size_t i, F p, F other) {
    const auto* at = reinterpret_cast<const __m256i*>(static_cast<const uint16_t*>(base) + i);
    return _mm512_mask_mov_ps(other, _mm256_cmpeq_epi16_mask(_mm256_loadu_si256(at), narrow<kCopy>(p)), p);
  }

  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F sqrt(F a) { return _mm512_sqrt_ps(a); }
  static F nan_made_canonical(F a) {
    const F nan = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(0xffc00000U)));
    return _mm512_mask_mov_ps(a, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), nan);
  }

  using D = __m512d;
  static constexpr size_t double_width = 8;
  static D zero() { return _mm512_setzero_pd(); }
  static void store_double(double* at, D value) { _mm512_storeu_pd(at, value); }
  static void add_squares(D* sums, F g) {
    const D low = _mm512_cvtps_pd(_mm512_castps512_ps256(g));
    const D high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(g, 1));
    sums[0] = _mm512_fmadd_pd(low, low, sums[0]);
    sums[1] = _mm512_fmadd_pd(high, high, sums[1]);
  }

  using W = __m512i;
  struct Two {
    W first, second;
  };
  static W words(uint32_t first, uint32_t stride) {
    const W numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(first)),
                            _mm512_mullo_epi32(numbers, _mm512_set1_epi32(static_cast<int>(stride))));
  }
  static W bits(F a) { return _mm512_castps_si512(a); }
  static F floats(W a) { return _mm512_castsi512_ps(a); }
  static W add_words(W a, W b) { return _mm512_add_epi32(a, b); }
  static W and_words(W a, W b) { return _mm512_and_si512(a, b); }
  static W or_words(W a, W b) { return _mm512_or_si512(a, b); }
  static W up(W a) { return _mm512_slli_epi32(a, 16); }
  static W down(W a) { return _mm512_srli_epi32(a, 16); }
  static W down_signed(W a) { return _mm512_srai_epi32(a, 16); }
  static W where_number(F a, W then, W otherwise) {
    return _mm512_mask_mov_epi32(otherwise, _mm512_cmp_ps_mask(a, a, _CMP_ORD_Q), then);
  }
  static W load_halves(const uint16_t* at) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  }
  static W load_signed_halves(const uint16_t* at) {
    return _mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  }
  static void store_halves(uint16_t* at, W a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), _mm512_cvtepi32_epi16(a));
  }
  static W load_words(const uint16_t* at) { return _mm512_loadu_si512(at); }
  static void store_words(uint16_t* at, W a) { _mm512_storeu_si512(at, a); }
  static Two load_two(const uint16_t* at) {
    const W spread = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), load_words(at));
    const W zero = _mm512_setzero_si512();
    return {_mm512_unpacklo_epi16(zero, spread), _mm512_unpackhi_epi16(zero, spread)};
  }
  static W two(W first, W second) {
    const W packed = _mm512_packus_epi32(down(first), down(second));
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), packed);
  }
  static void store_two(uint16_t* at, W first, W second) { store_words(at, two(first, second)); }
  static void stream_two(uint16_t* at, W first, W second) {
    _mm512_stream_si512(reinterpret_cast<W*>(at), two(first, second));
  }
  static bool has_nan(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) != 0; }
  static F where_equal(W a, W b, F then, F otherwise) {
    return _mm512_mask_mov_ps(otherwise, _mm512_cmpeq_epi32_mask(a, b), then);
  }
  static W set_words(uint32_t word) { return _mm512_set1_epi32(static_cast<int>(word)); }

  static W sub_words(W a, W b) { return _mm512_sub_epi32(a, b); }
  static W min_words(W a, W b) { return _mm512_min_epu32(a, b); }
  static bool any_nan(F a, F b, F c) {
    return (_mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) | _mm512_cmp_ps_mask(c, c, _CMP_UNORD_Q)) != 0;
  }
  static uint32_t whole(W codes) { return _mm512_cmpeq_epi32_mask(codes, set_words(kRollbackWhole)); }
  static void store_codes(uint8_t* at, const W* p, const W* m, const W* v) {
    const __m128i low = _mm512_cvtepi32_epi8(or_words(*p, _mm512_slli_epi32(*m, 4)));
    const __m128i pairs = _mm_maddubs_epi16(_mm512_cvtepi32_epi8(*v), _mm_set1_epi16(0x1001));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(at), low);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(at + 16), _mm_packus_epi16(pairs, pairs));
  }
  static void load_codes(const uint8_t* at, W* p, W* m, W* v) {
    const W low = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
    const __m128i pairs = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at + 16));
    const __m128i each = _mm_unpacklo_epi8(pairs, _mm_srli_epi16(pairs, 4));
    *p = and_words(low, set_words(15));
    *m = _mm512_srli_epi32(low, 4);
    *v = _mm512_cvtepu8_epi32(_mm_and_si128(each, _mm_set1_epi8(15)));
  }

  struct S {
    W of_even;
    W of_odd;
  };
  static S no_sums() { return {_mm512_setzero_si512(), _mm512_setzero_si512()}; }
  static void add_products(S& sums, W a, W b) {
    sums.of_even = _mm512_add_epi64(sums.of_even, _mm512_mul_epu32(a, b));
    const W odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
    sums.of_odd = _mm512_add_epi64(sums.of_odd, odd);
  }
  static uint64_t total(S sums) {
    const W both = _mm512_add_epi64(sums.of_even, sums.of_odd);
    alignas(64) uint64_t each[8];
    _mm512_store_si512(each, both);
    uint64_t all = 0;
    for (const uint64_t sum : each) all += sum;
    return all;
  }

 private:
  static constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

  template <ElementType kCopy>
  static __m256i narrow(F value) {
    return kCopy == ElementType::bf16 ? bf16(value) : _mm512_cvtps_ph(value, kNearest);
  }

  /// Rounds to bf16 with integer arithmetic. VCVTNEPS2BF16 is not used, because it takes denormals for zero.
  static __m256i bf16(F value) {
    const __m512i bits = _mm512_castps_si512(value);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __mmask16 is_nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    const __m512i kept = _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(kept, 16));
  }
};

}  // namespace

constinit const KernelSet kAvx512Kernels = lane_kernels<Avx512Lane>();

}  // namespace zf
#endif
