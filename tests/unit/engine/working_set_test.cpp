#include "engine/working_set.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <set>

#include "allowed_pus.hpp"
#include "base/error.hpp"
#include "engine/half.hpp"
#include "kernel_fixture.hpp"
#include "os/affinity.hpp"

namespace zf {
namespace {

float* floats(void* array) { return static_cast<float*>(array); }

bool on_page(const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 4096 == 0; }

TEST(WorkingSet, EveryMemberHasItsPages) {
  Pool pool(allowed_pus());
  const WorkingSet set(pool, 100'003);
  EXPECT_EQ(set.elements(), 100'003U);
  std::size_t sum = 0;
  for (std::size_t member = 0; member < pool.size(); ++member) {
    const AdamArrays& slice = set.slice(member);
    EXPECT_TRUE(on_page(slice.p) && on_page(slice.g) && on_page(slice.m) && on_page(slice.v));
    EXPECT_EQ(slice.p, floats(set.slice(0).p) + sum);
    sum += slice.n;
  }
  EXPECT_EQ(sum, set.elements());
}

TEST(WorkingSet, ArraysOfAPowerOfTwoDoNotBeginAtTheSameLowAddressBits) {
  Pool pool({allowed_pus().front()});
  const WorkingSet set(pool, std::size_t{1} << 20);
  const AdamArrays& slice = set.slice(0);
  std::set<std::uintptr_t> low_bits;
  for (const void* at : {static_cast<const void*>(slice.p), slice.g, static_cast<const void*>(slice.m),
                         static_cast<const void*>(slice.v)}) {
    low_bits.insert(reinterpret_cast<std::uintptr_t>(at) % (std::uintptr_t{1} << 20));
  }
  EXPECT_EQ(low_bits.size(), 4U) << "three times slower otherwise on a Zen 4, see stagger.hpp";
}

TEST(WorkingSet, OnlySharedMemoryIsSharedWithAChild) {
  Pool pool({allowed_pus().front()});
  for (const auto memory : {WorkingSet::Memory::own, WorkingSet::Memory::shared}) {
    const WorkingSet set(pool, 1000, memory);
    floats(set.slice(0).p)[7] = 1;
    const pid_t child = ::fork();
    if (child == 0) {
      floats(set.slice(0).p)[7] = 2;
      ::_exit(0);
    }
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    EXPECT_EQ(floats(set.slice(0).p)[7], memory == WorkingSet::Memory::shared ? 2 : 1);
  }
}

TEST(WorkingSet, StaysFiniteAndNormalThroughTenThousandMixedPasses) {
  for (const int passes_per_step : {0, 1, 5, -1}) {  // -1: roofline passes only
    Pool pool({allowed_pus().front()});
    const WorkingSet set(pool, 3000);
    const AdamArrays& slice = set.slice(0);
    AdamSettings settings;
    settings.weight_decay = 0.01F;
    for (std::uint64_t i = 1; i <= 10'000; ++i) {
      if (passes_per_step < 0 ||
          (passes_per_step > 0 && i % static_cast<std::uint64_t>(passes_per_step) == 0)) {
        roofline_pass(chosen_isa(), slice);
      }
      if (passes_per_step < 0) continue;
      adam_kernel(chosen_isa(), {.decay = true})(adam_scalars(settings, i), slice);
    }
    for (std::size_t i = 0; i < slice.n; ++i) {
      const float p = floats(slice.p)[i];
      ASSERT_TRUE(std::isfinite(p) && std::fpclassify(p) != FP_SUBNORMAL) << p;
      ASSERT_TRUE(std::isnormal(floats(slice.m)[i])) << floats(slice.m)[i];
      ASSERT_TRUE(std::isnormal(floats(slice.v)[i])) << floats(slice.v)[i];
    }
  }
}

TEST(WorkingSet, EveryFormatHasParametersAndMomentsOfItsOwn) {
  Pool pool(allowed_pus());
  for (const StateFormat format : {StateFormat::bf16, StateFormat::split, StateFormat::bf16_split}) {
    const WorkingSet set(pool, 5000, WorkingSet::Memory::own, format);
    for (std::size_t member = 0; member < pool.size(); ++member) {
      const AdamArrays& fp32 = set.slice(member);
      const auto bytes_of_step = static_cast<double>(fp32.n * measured_step_bytes(format));
      const auto bytes_of_roofline = static_cast<double>(set.roofline_slice(member).n * kAdamBytesPerParam);
      EXPECT_NEAR(bytes_of_roofline, bytes_of_step, kAdamBytesPerParam);
      const AdamArrays& own = set.step_slice(member);
      ASSERT_EQ(own.n, fp32.n);
      ASSERT_EQ(own.g, fp32.g);
      for (std::size_t i = 0; i < own.n; ++i) {
        const auto half = [i](const void* array) { return static_cast<const std::uint16_t*>(array)[i]; };
        const float p = has_split_masters(format) ? f32_of_split({.high = half(own.copy), .low = half(own.p)})
                                                  : floats(own.p)[i];
        const float v = has_bf16_moments(format) ? f32_of_bf16(half(own.v)) : floats(own.v)[i];
        ASSERT_EQ(p, floats(fp32.p)[i]);
        ASSERT_NEAR(v, floats(fp32.v)[i], 1e-8);
      }
      adam_kernel(chosen_isa(), {.format = format})(adam_scalars({}, 1), own);
      if (own.n != 0) {
        ASSERT_EQ(floats(fp32.p)[0], 1.0F) << "a step leaves the roofline's arrays";
      }
    }
  }
}

TEST(WorkingSet, TooMuchIsRefusedWithTheAmount) {
  Pool pool({allowed_pus().front()});
  for (const std::size_t elements : {std::size_t{1} << 45, ~std::size_t{0}}) {
    try {
      const WorkingSet set(pool, elements);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::runtime_error);
      EXPECT_THAT(error.what(), testing::HasSubstr("TiB"));
      EXPECT_THAT(error.what(), testing::HasSubstr("--params"));
    }
  }
}

}  // namespace
}  // namespace zf
