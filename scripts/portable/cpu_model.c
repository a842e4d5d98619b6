/* What __builtin_cpu_supports and __builtin_cpu_is read on x86-64. zig's own is empty: it says of every CPU
 * that it has no AVX, so kernels would be scalar. The layout and the numbers are those of GCC's and LLVM's
 * libraries (compiler-rt/lib/builtins/cpu_model/x86.c); only what zf-tune asks for is filled in. */
#include <cpuid.h>

struct cpu_model {
  unsigned int vendor; /* 1: Intel, 2: AMD */
  unsigned int type;
  unsigned int subtype;
  unsigned int features[1];
};
struct cpu_model __cpu_model;

enum { kAvx = 9, kAvx2 = 10, kFma = 14, kAvx512f = 15, kAvx512vl = 20, kAvx512bw = 21, kAvx512dq = 22 };

/* What the operating system saves of a thread: bits 1 and 2 are SSE and AVX, 5 to 7 are AVX-512. */
static unsigned int saved_state(void) {
  unsigned int low;
  unsigned int high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

__attribute__((constructor(101))) int __cpu_indicator_init(void) {
  unsigned int a;
  unsigned int b;
  unsigned int c;
  unsigned int d;
  if (__cpu_model.vendor != 0 || __get_cpuid(0, &a, &b, &c, &d) == 0) return 0;
  __cpu_model.vendor = b == signature_INTEL_ebx ? 1 : b == signature_AMD_ebx ? 2 : 3;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) return 0;
  const unsigned int saved = saved_state();
  if ((saved & 0x6) != 0x6) return 0;
  unsigned int features = (c & bit_AVX ? 1U << kAvx : 0) | (c & bit_FMA ? 1U << kFma : 0);
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
    if (b & bit_AVX2) features |= 1U << kAvx2;
    if ((saved & 0xe6) == 0xe6) {
      if (b & bit_AVX512F) features |= 1U << kAvx512f;
      if (b & bit_AVX512VL) features |= 1U << kAvx512vl;
      if (b & bit_AVX512BW) features |= 1U << kAvx512bw;
      if (b & bit_AVX512DQ) features |= 1U << kAvx512dq;
    }
  }
  __cpu_model.features[0] = features;
  return 0;
}
