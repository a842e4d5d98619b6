// The header compiles alone, as C++, without a warning (the C tests do the same for C11).
#include "zf_runtime.h"

static_assert(ZF_ABI_VERSION >= 1);

int main() {
  const zf_options options = ZF_OPTIONS_INIT;
  const zf_group group = ZF_GROUP_INIT;
  const zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  const zf_stats stats = ZF_STATS_INIT;
  const bool sizes = options.struct_size == sizeof options && group.struct_size == sizeof group &&
                     args.struct_size == sizeof args && stats.struct_size == sizeof stats;
  return sizes && zf_abi_version() == ZF_ABI_VERSION ? 0 : 1;
}
// The worker's own parts: who updates what, its command line, and a start by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <random>
#include <string>

#include "base/error.hpp"
#include "worker/arguments.hpp"
#include "worker/shares.hpp"

namespace zf {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::size_t grains_of(const Slice& slice) { return (slice.size() + kSliceGrain - 1) / kSliceGrain; }

TEST(Shares, CoverEveryChunkOnceAndAreEqualWithinAGrain) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::size_t members = 1 + random() % 70;
    std::vector<GroupCut> groups(1 + random() % 20);
    for (GroupCut& group : groups) {
      group.elements = random() % (random() % 2 == 0 ? 20 : 3'000'000);
      group.chunk_elements = (1 + random() % 1000) * kSliceGrain;
    }
    const auto shares = shares_of(groups, members);
    ASSERT_EQ(shares.size(), groups.size());
    std::vector<std::size_t> total(members, 0);
    for (std::size_t group = 0; group < groups.size(); ++group) {
      std::size_t end = 0;
      for (std::size_t chunk = 0; chunk < shares[group].size(); ++chunk) {
        ASSERT_EQ(shares[group][chunk].size(), members);
        ASSERT_EQ(end, chunk * groups[group].chunk_elements);
        std::size_t least = ~std::size_t{0};
        std::size_t most = 0;
        for (std::size_t member = 0; member < members; ++member) {
          const Slice& slice = shares[group][chunk][member];
          ASSERT_EQ(slice.begin, end);
          ASSERT_TRUE(slice.begin % kSliceGrain == 0 || slice.size() == 0);
          end = slice.end;
          least = std::min(least, grains_of(slice));
          most = std::max(most, grains_of(slice));
          total[member] += grains_of(slice);
        }
        ASSERT_LE(most - least, 1U);
      }
      ASSERT_EQ(end, groups[group].elements);
    }
    const auto [least, most] = std::minmax_element(total.begin(), total.end());
    ASSERT_LE(*most - *least, 1U);
  }
}

TEST(Shares, SmallGroupsKeepAllMembersBusy) {
  const auto shares = shares_of(std::vector<GroupCut>(16, {4 * kSliceGrain, 1024 * kSliceGrain}), 16);
  for (std::size_t member = 0; member < 16; ++member) {
    std::size_t grains = 0;
    for (const auto& group : shares) grains += grains_of(group.front()[member]);
    EXPECT_EQ(grains, 4U) << "member " << member;
  }
}

TEST(WorkerArguments, SayWhereToRun) {
  const WorkerArguments arguments =
      parse_worker_arguments({"--rank", "3", "--cpus", "7-9,11", "--mems", "1", "--memory-policy", "bind"});
  EXPECT_EQ(arguments.rank, 3);
  EXPECT_EQ(arguments.cpus, (CpuSet{Pu{7}, Pu{8}, Pu{9}, Pu{11}}));
  EXPECT_EQ(arguments.mems, NodeSet{Node{1}});
  EXPECT_EQ(arguments.memory_policy, MemoryPolicy::bind);
}

std::string refusal_of(const std::vector<std::string>& words) {
  try {
    parse_worker_arguments(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    return error.what();
  }
  return "none";
}

TEST(WorkerArguments, RefuseWhatIsWrong) {
  EXPECT_THAT(refusal_of({}), HasSubstr("no --cpus"));
  EXPECT_THAT(refusal_of({"--cpu", "0"}), HasSubstr("unknown argument \"--cpu\""));
  EXPECT_THAT(refusal_of({"--cpus"}), HasSubstr("--cpus without a value"));
  EXPECT_THAT(refusal_of({"--cpus", "4-2"}), HasSubstr("4-2"));
  EXPECT_THAT(refusal_of({"--cpus", "0", "--rank", "x"}), HasSubstr("\"x\" is no rank"));
  EXPECT_THAT(refusal_of({"--cpus", "0", "--memory-policy", "strict"}), HasSubstr("\"strict\" is no policy"));
}

struct Outcome {
  int status = -1;
  std::string output;  ///< stdout and stderr
};

Outcome run(const std::string& arguments) {
  Outcome outcome;
  FILE* const pipe = popen((std::string(ZF_BIN_DIR "/zf-optimizer ") + arguments + " 2>&1").c_str(), "re");
  std::array<char, 4096> buffer;
  while (fgets(buffer.data(), buffer.size(), pipe) != nullptr) outcome.output += buffer.data();
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

TEST(WorkerByHand, SaysOneClearLineAndEnds) {
  for (const char* const arguments :
       {"", "--cpus 0 3</dev/null 4</dev/null", "--cpus 0 3<&- 4<&-", "--bogus"}) {
    const Outcome by_hand = run(arguments);
    EXPECT_EQ(by_hand.status, 2) << arguments;
    EXPECT_THAT(by_hand.output, StartsWith("zf-optimizer: "));
    EXPECT_THAT(by_hand.output, HasSubstr("libzf_runtime.so"));
    EXPECT_EQ(std::count(by_hand.output.begin(), by_hand.output.end(), '\n'), 1) << by_hand.output;
  }
}

TEST(WorkerByHand, HasHelpAndVersion) {
  const Outcome help = run("--help");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.output, HasSubstr("--memory-policy"));
  const Outcome version = run("--version");
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.output, StartsWith("zf-optimizer "));
}

}  // namespace
}  // namespace zf
// zf-optimizer, but for the roll-back of torn vectors: abi_kill_test must see the difference.
//
// Linked with --wrap: the worker's calls of zf::roll_back come here, and the real one has another name.
#include "engine/kernel.hpp"
#include "engine/undo.hpp"

namespace zf {

std::size_t real_roll_back(const UndoLog& log, std::uint64_t entry,
                           const AdamArrays& slice) asm("__real_" ZF_ROLL_BACK);
std::size_t roll_nothing_back(const UndoLog& log, std::uint64_t entry,
                              const AdamArrays& slice) asm("__wrap_" ZF_ROLL_BACK);

/// The same answer, for a log in which no vector was begun: there is nothing to restore.
std::size_t roll_nothing_back(const UndoLog& log, std::uint64_t entry, const AdamArrays& slice) {
  UndoLog calm = log;
  for (UndoRun& run : calm.runs) run.mark &= ~kUndoBegun;
  return real_roll_back(calm, entry, slice);
}

}  // namespace zf
#include "engine/gradient_norm.hpp"



#include <cmath>

#include "kernel_fixture.hpp"

namespace zf {
namespace {

GradientNorm norm_in_slices(Isa isa, GradType type, TestState& state, std::size_t threads) {
  std::vector<double> sums(norm_blocks(state.g32.size()));
  for (const Slice& slice : slices_of(state.g32.size(), threads)) {
    if (slice.size() == 0) continue;
    const AdamArrays arrays = state.arrays({.grad = type}, slice.begin, slice.size());
    norm_kernel(isa, type)(arrays.g, arrays.n, sums.data() + slice.begin / kNormBlock);
  }
  return gradient_norm(sums);
}

TEST(GradientNorm, IsTheSameOnEveryIsaAndSlicing) {
  for (const GradType type : {GradType::f32, GradType::bf16, GradType::f16}) {
    for (const std::size_t n :
         std::initializer_list<std::size_t>{0, 1, 7, 15, 16, 17, 1023, 1024, 1025, 100'003}) {
      TestState state = random_state(n, type, 47, false);
      const GradientNorm expected = norm_in_slices(Isa::scalar, type, state, 1);
      EXPECT_TRUE(expected.finite);
      for (const Isa isa : supported_isas()) {
        for (const std::size_t threads : std::initializer_list<std::size_t>{1, 2, 5, 64}) {
          EXPECT_EQ(norm_in_slices(isa, type, state, threads).sum_of_squares, expected.sum_of_squares)
              << name_of(isa) << ' ' << n << ' ' << threads;
        }
      }
    }
  }
}

TEST(GradientNorm, IsTheSumOfSquares) {
  TestState state = random_state(100'003, GradType::f32, 53, false);
  long double sum = 0;
  for (const float g : state.g32) sum += static_cast<long double>(g) * g;
  const auto expected = static_cast<double>(sum);
  EXPECT_NEAR(norm_in_slices(chosen_isa(), GradType::f32, state, 3).sum_of_squares, expected,
              expected * 1e-12);
}

TEST(GradientNorm, OneBadGradientAnywhereIsSeen) {
  for (const Isa isa : supported_isas()) {
    for (const std::size_t at : std::initializer_list<std::size_t>{0, 8, 1023, 1024, 5000, 10'002}) {
      for (const std::uint32_t bad : {0x7f800000U, 0xff800000U, 0x7fc00000U, 0x7f800001U}) {
        TestState state = random_state(10'003, GradType::f32, 59, false);
        state.g32[at] = std::bit_cast<float>(bad);
        EXPECT_FALSE(norm_in_slices(isa, GradType::f32, state, 2).finite) << name_of(isa) << ' ' << at;
      }
    }
  }
}

TEST(GradientNorm, LargestGradientsDoNotOverflow) {
  TestState state = random_state(4096, GradType::f32, 61, false);
  std::fill(state.g32.begin(), state.g32.end(), std::numeric_limits<float>::max());
  EXPECT_TRUE(norm_in_slices(chosen_isa(), GradType::f32, state, 1).finite);
}

}  // namespace
}  // namespace zf
#include "engine/half.hpp"




#include <limits>


namespace zf {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The value of a half by its definition.
double value_of_f16(std::uint16_t half) {
  const int exponent = (half >> 10) & 0x1f;
  const int fraction = half & 0x3ff;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

/// To nearest even by the definition of rounding: with ten fraction bits, or in units of 2^-24 below 2^-14.
double rounded_to_f16(double x) {
  if (x == 0) return x;
  const int exponent = std::max(std::ilogb(x), -14);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(x, 10 - exponent)), exponent - 10);
  return std::fabs(rounded) >= 65536.0 ? std::copysign(kInfinity, x) : rounded;
}

TEST(Half, EveryF16IsReadByItsDefinition) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if ((half & 0x7c00) == 0x7c00) continue;
    ASSERT_EQ(static_cast<double>(f32_of_f16(half)), value_of_f16(half)) << bits;
    ASSERT_EQ(std::signbit(f32_of_f16(half)), (half & 0x8000) != 0);
    ASSERT_EQ(f16_of_f32(f32_of_f16(half)), half);
  }
  EXPECT_EQ(f32_of_f16(0x7c00), kInfinity);
  EXPECT_EQ(f32_of_f16(0xfc00), -kInfinity);
  EXPECT_TRUE(std::isnan(f32_of_f16(0x7c01)));
}

TEST(Half, F16RoundsToNearestEven) {
  std::mt19937 random(1);
  for (int i = 0; i < 2'000'000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(f32_of_f16(f16_of_f32(x))));
    } else {
      ASSERT_EQ(static_cast<double>(f32_of_f16(f16_of_f32(x))), rounded_to_f16(static_cast<double>(x))) << x;
    }
  }
  // Ties and borders: halfway between neighbours, the smallest and the largest.
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = value_of_f16(static_cast<std::uint16_t>(bits));
    const double high = value_of_f16(static_cast<std::uint16_t>(bits + 1));
    const auto tie = static_cast<float>((low + high) / 2);
    ASSERT_EQ(f16_of_f32(tie), bits + (bits & 1));
    ASSERT_EQ(f16_of_f32(std::nextafter(tie, 0.0F)), bits);
    ASSERT_EQ(f16_of_f32(std::nextafter(tie, kInfinity)), bits + 1);
  }
  EXPECT_EQ(f16_of_f32(65519.996F), 0x7bff);
  EXPECT_EQ(f16_of_f32(65520.0F), 0x7c00);
  EXPECT_EQ(f16_of_f32(-kInfinity), 0xfc00);
}

TEST(Half, Bf16RoundsToNearestEvenAndKeepsNan) {
  for (std::uint32_t bits = 0; bits < 0x7f7f; ++bits) {
    const std::uint32_t tie = (bits << 16) | 0x8000;
    ASSERT_EQ(bf16_of_f32(std::bit_cast<float>(tie - 1)), bits);
    ASSERT_EQ(bf16_of_f32(std::bit_cast<float>(tie)), bits + (bits & 1));
    ASSERT_EQ(bf16_of_f32(std::bit_cast<float>(tie + 1)), bits + 1);
    ASSERT_EQ(f32_of_bf16(static_cast<std::uint16_t>(bits)), std::bit_cast<float>(bits << 16));
  }
  EXPECT_EQ(bf16_of_f32(std::numeric_limits<float>::max()), 0x7f80) << "rounds up to infinity";
  EXPECT_EQ(bf16_of_f32(-kInfinity), 0xff80);
  for (const std::uint32_t nan : {0x7f800001U, 0x7fffffffU, 0xffc00000U, 0xff80ffffU}) {
    EXPECT_TRUE(std::isnan(f32_of_bf16(bf16_of_f32(std::bit_cast<float>(nan))))) << nan;
  }
}

}  // namespace
}  // namespace zf
#include "engine/isa.hpp"




#include <cstdlib>




namespace zf {
namespace {

/// ZF_ISA for one test, and what it was afterwards.
class ZfIsa {
 public:
  explicit ZfIsa(const char* value) {
    if (const char* old = std::getenv("ZF_ISA")) old_ = old;
    if (value != nullptr) {
      setenv("ZF_ISA", value, 1);
    } else {
      unsetenv("ZF_ISA");
    }
  }
  ~ZfIsa() {
    if (old_) {
      setenv("ZF_ISA", old_->c_str(), 1);
    } else {
      unsetenv("ZF_ISA");
    }
  }
  ZfIsa(const ZfIsa&) = delete;
  ZfIsa& operator=(const ZfIsa&) = delete;

 private:
  std::optional<std::string> old_;
};

constexpr Isa kAll[] = {Isa::scalar, Isa::neon, Isa::avx2, Isa::avx512};

TEST(Isa, NamesRoundTrip) {
  for (const Isa isa : kAll) EXPECT_EQ(isa_named(name_of(isa)), isa);
  EXPECT_FALSE(isa_named("AVX2"));
  EXPECT_FALSE(isa_named(""));
}

TEST(Isa, WidestSupportedIsChosen) {
  for (const char* unset : {static_cast<const char*>(nullptr), ""}) {
    const ZfIsa environment(unset);
    const Isa chosen = chosen_isa();
    EXPECT_TRUE(is_supported(chosen));
    for (const Isa isa : kAll) EXPECT_TRUE(isa <= chosen || !is_supported(isa));
  }
}

TEST(Isa, EnvironmentOverrides) {
  for (const Isa isa : kAll) {
    const ZfIsa environment(std::string(name_of(isa)).c_str());
    if (is_supported(isa)) {
      EXPECT_EQ(chosen_isa(), isa);
    } else {
      EXPECT_THROW(chosen_isa(), Error) << "a CPU without it must refuse, not crash later";
    }
  }
}

TEST(Isa, UnknownNameIsRefusedWithTheNamesThatExist) {
  const ZfIsa environment("avx1024");
  try {
    chosen_isa();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("ZF_ISA"), testing::HasSubstr("avx1024"),
                                             testing::HasSubstr("avx512")));
  }
}

}  // namespace
}  // namespace zf
// The kernel's promise that its result depends on nothing but its input.




#include "engine/slices.hpp"


#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace zf {
namespace {

constexpr std::size_t kOddLength = 1'000'003;

/// Steps over the slices of `threads` threads, one after the other.
TestState stepped(TestState state, Isa isa, const KernelVariant& variant, std::size_t threads,
                  std::uint64_t steps = 3) {
  for (std::uint64_t step = 1; step <= steps; ++step) {
    for (const Slice& slice : slices_of(state.p.size(), threads)) {
      adam_kernel(isa, variant)(test_scalars(variant, step),
                                state.arrays(variant, slice.begin, slice.size()));
    }
  }
  return state;
}

/// Lanes that are compared with the scalar one.
std::vector<Isa> vector_isas() {
  std::vector<Isa> isas = supported_isas();
  isas.erase(isas.begin());
  return isas;
}

TEST(Kernel, LanesAgreeBitForBitOnEveryShortLength) {
  for (const KernelVariant& variant : all_variants()) {
    for (std::size_t n = 0; n <= 70; ++n) {
      const TestState begin = random_state(n, variant.grad, static_cast<unsigned>(n) + 1, true);
      const TestState expected = stepped(begin, Isa::scalar, variant, 1);
      for (const Isa isa : vector_isas()) {
        ASSERT_TRUE(stepped(begin, isa, variant, 1) == expected)
            << name_of(isa) << ' ' << n << ' ' << text(variant);
      }
    }
  }
}

TEST(Kernel, LanesAgreeBitForBitOnOddLengths) {
  for (const GradType grad : {GradType::f32, GradType::bf16, GradType::f16}) {
    const TestState begin = random_state(kOddLength, grad, 7, true);
    for (const KernelVariant& variant : all_variants()) {
      if (variant.grad != grad) continue;
      const TestState expected = stepped(begin, Isa::scalar, variant, 1, 1);
      for (const Isa isa : vector_isas()) {
        ASSERT_TRUE(stepped(begin, isa, variant, 1, 1) == expected) << name_of(isa) << ' ' << text(variant);
      }
    }
  }
}

TEST(Kernel, SlicingChangesNothing) {
  const KernelVariant variant = {GradType::bf16, CopyType::bf16, true, AdamMode::adamw, true};
  const TestState begin = random_state(kOddLength, variant.grad, 11, true);
  const TestState expected = stepped(begin, Isa::scalar, variant, 1);
  for (const Isa isa : supported_isas()) {
    for (const std::size_t threads : std::initializer_list<std::size_t>{1, 2, 3, 7, 64, 977, 2000}) {
      ASSERT_TRUE(stepped(begin, isa, variant, threads) == expected) << name_of(isa) << ' ' << threads;
    }
  }
}

TEST(Kernel, NothingOutsideTheSliceIsWritten) {
  constexpr std::size_t kBegin = 1024;
  for (const KernelVariant& variant : all_variants()) {
    for (const std::size_t n : std::initializer_list<std::size_t>{1, 15, 17, 33}) {
      for (const Isa isa : supported_isas()) {
        TestState state = random_state(2 * kBegin, variant.grad, 3, true);
        TestState untouched = state;
        adam_kernel(isa, variant)(test_scalars(variant, 1), state.arrays(variant, kBegin, n));
        const auto restore = [&](auto& ours, const auto& theirs) {
          std::copy_n(theirs.begin() + kBegin, n, ours.begin() + kBegin);
        };
        restore(state.p, untouched.p);
        restore(state.m, untouched.m);
        restore(state.v, untouched.v);
        restore(state.stale, untouched.stale);
        restore(state.copy, untouched.copy);
        ASSERT_TRUE(state == untouched) << name_of(isa) << ' ' << n << ' ' << text(variant);
      }
    }
  }
}

TEST(Kernel, OutputsAreTheNewParameters) {
  for (const CopyType copy : {CopyType::bf16, CopyType::f16}) {
    const KernelVariant variant = {GradType::f32, copy, true, AdamMode::adamw, true};
    for (const Isa isa : supported_isas()) {
      const TestState state = stepped(random_state(4099, variant.grad, 5, true), isa, variant, 1);
      EXPECT_TRUE(same_bits(state.stale, state.p));
      for (std::size_t i = 0; i < state.p.size(); ++i) {
        ASSERT_EQ(state.copy[i], copy == CopyType::bf16 ? bf16_of_f32(state.p[i]) : f16_of_f32(state.p[i]))
            << i;
      }
    }
  }
}

TEST(Kernel, KnowsOneKindOfNan) {
  // A gradient's NaN is replaced by the machine's own, so no two kinds can meet in one operation.
  const KernelVariant variant = {GradType::f32, CopyType::bf16, false, AdamMode::adam, true};
  for (const Isa isa : supported_isas()) {
    const TestState state = stepped(random_state(4099, variant.grad, 13, true), isa, variant, 1);
    for (const auto* array : {&state.p, &state.m, &state.v}) {
      for (const float x : *array) {
        if (x != x) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(x), 0xffc00000U) << name_of(isa);
        }
      }
    }
  }
}

#if defined(__x86_64__)
TEST(Kernel, CallersFlushOfDenormalsAndRoundingModeDoNotMatter) {
  const KernelVariant variant = {GradType::f16, CopyType::f16, true, AdamMode::adamw, true};
  const TestState begin = random_state(4099, variant.grad, 17, true);
  const TestState expected = stepped(begin, Isa::scalar, variant, 1);
  const unsigned before = _mm_getcsr();
  const unsigned flush_and_round_down = 0x1f80U | 0x8040U | 0x2000U;
  for (const Isa isa : supported_isas()) {
    AdamScalars scalars[3];
    for (std::uint64_t step = 1; step <= 3; ++step) scalars[step - 1] = test_scalars(variant, step);
    TestState state = begin;
    _mm_setcsr(flush_and_round_down);
    for (const AdamScalars& scalar : scalars) {
      adam_kernel(isa, variant)(scalar, state.arrays(variant, 0, state.p.size()));
    }
    EXPECT_EQ(_mm_getcsr() & 0xffc0U, flush_and_round_down & 0xffc0U) << "the caller's mode is given back";
    _mm_setcsr(before);
    EXPECT_TRUE(state == expected) << name_of(isa);
  }
}
#endif

TEST(Kernel, AskingForMemoryAheadChangesNothing) {
  for (const Isa isa : supported_isas()) {
    for (const GradType grad : {GradType::f32, GradType::bf16}) {
      const KernelVariant variant = {grad, CopyType::bf16, true, AdamMode::adamw, true};
      TestState without = random_state(1037, grad, 23, false);
      TestState with = without;
      AdamArrays slice = without.arrays(variant, 0, without.p.size());
      slice.ahead = 0;
      adam_kernel(isa, variant)(test_scalars(variant, 1), slice);
      slice = with.arrays(variant, 0, with.p.size());
      slice.ahead = 256;
      adam_kernel(isa, variant)(test_scalars(variant, 1), slice);
      EXPECT_TRUE(with == without) << name_of(isa);
    }
  }
}

TEST(Kernel, RooflineReadsAndWritesWhatItSays) {
  for (const Isa isa : supported_isas()) {
    for (const bool with_stale : {false, true}) {
      TestState state = random_state(1037, GradType::f32, 19, false);
      const TestState before = state;
      KernelVariant outputs;
      outputs.stale = with_stale;
      roofline_pass(isa, state.arrays(outputs, 0, state.p.size()));
      for (std::size_t i = 0; i < state.p.size(); ++i) {
        ASSERT_EQ(state.p[i], before.p[i] + before.g32[i]);
        ASSERT_EQ(state.m[i], before.m[i] + before.g32[i]);
        ASSERT_EQ(state.v[i], before.v[i] + before.g32[i]);
        ASSERT_EQ(state.stale[i], with_stale ? state.p[i] : before.stale[i]);
      }
    }
  }
}

}  // namespace
}  // namespace zf
// The kernel's numbers: against the published recipe, restated here, and against float64.








namespace zf {
namespace {

struct Recipe {
  float lr, beta1, beta2, eps, lambda;
  bool decoupled;
};

/// Step t of the recipe of DeepSpeed's CPU Adam on full vectors, written down from docs/kernel.md alone.
void recipe_step(const Recipe& r, float b1t, float b2t, float g, float& p, float& m, float& v) {
  const float bc1 = 1 - b1t;
  const float bc2 = 1 / std::sqrt(1 - b2t);
  const float ss = -r.lr / bc1;
  const float wd = -r.lr * r.lambda;
  const float omb1 = 1 - r.beta1;
  const float omb2 = 1 - r.beta2;
  if (r.lambda > 0 && !r.decoupled) g = std::fma(p, r.lambda, g);
  m = std::fma(g, omb1, m * r.beta1);
  const float square = g * g;
  v = std::fma(square, omb2, v * r.beta2);
  const float d = std::fma(std::sqrt(v), bc2, r.eps);
  const float u = m / d;
  if (r.lambda > 0 && r.decoupled) p = std::fma(p, wd, p);
  p = std::fma(u, ss, p);
}

class AdamValues : public testing::TestWithParam<std::tuple<AdamMode, float>> {
 protected:
  Recipe recipe() const {
    const auto [mode, lambda] = GetParam();
    return {2e-3F, 0.9F, 0.99F, 1e-8F, lambda, mode == AdamMode::adamw};
  }
  AdamSettings settings() const {
    const Recipe r = recipe();
    AdamSettings settings;
    settings.lr = r.lr;
    settings.beta1 = r.beta1;
    settings.beta2 = r.beta2;
    settings.eps = r.eps;
    settings.weight_decay = r.lambda;
    settings.mode = std::get<0>(GetParam());
    return settings;
  }
  KernelVariant variant() const {
    return {GradType::f32, CopyType::none, false, settings().mode, settings().weight_decay != 0.0F};
  }
  /// Gradient i of step t; the same for every array that is compared.
  static float gradient(std::size_t i, std::uint64_t t) {
    return 1e-2F * std::sin(static_cast<float>(i) * 0.7F + static_cast<float>(t) * 1.3F);
  }
};

TEST_P(AdamValues, AgreeWithTheRecipeBitForBit) {
  for (const Isa isa : supported_isas()) {
    TestState state = random_state(4096, GradType::f32, 23, false);
    TestState expected = state;
    AdamProgress progress;
    float b1t = 1;
    float b2t = 1;
    for (std::uint64_t t = 1; t <= 100; ++t) {
      for (std::size_t i = 0; i < state.g32.size(); ++i) state.g32[i] = gradient(i, t);
      progress = advanced(progress, settings(), t);
      adam_kernel(isa, variant())(scalars_of(settings(), progress),
                                  state.arrays(variant(), 0, state.p.size()));

      b1t *= recipe().beta1;
      b2t *= recipe().beta2;
      for (std::size_t i = 0; i < state.g32.size(); ++i) {
        recipe_step(recipe(), b1t, b2t, state.g32[i], expected.p[i], expected.m[i], expected.v[i]);
      }
      ASSERT_TRUE(state == expected) << name_of(isa) << " step " << t;
    }
  }
}

TEST_P(AdamValues, Float64BoundsTheErrorOverHundredSteps) {
  // Float64 all through, from the paper's formulas: Kingma and Ba 2015; Loshchilov and Hutter 2019.
  const Recipe r = recipe();
  TestState state = random_state(4096, GradType::f32, 29, false);
  std::fill(state.m.begin(), state.m.end(), 0.0F);
  std::fill(state.v.begin(), state.v.end(), 0.0F);
  std::vector<double> p(state.p.begin(), state.p.end());
  std::vector<double> m(p.size());
  std::vector<double> v(p.size());
  AdamProgress progress;
  for (std::uint64_t t = 1; t <= 100; ++t) {
    for (std::size_t i = 0; i < p.size(); ++i) state.g32[i] = gradient(i, t);
    progress = advanced(progress, settings(), t);
    adam_kernel(chosen_isa(), variant())(scalars_of(settings(), progress),
                                         state.arrays(variant(), 0, state.p.size()));
    const double beta1 = r.beta1;
    const double beta2 = r.beta2;
    for (std::size_t i = 0; i < p.size(); ++i) {
      double g = state.g32[i];
      if (!r.decoupled) g += r.lambda * p[i];
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(beta1, static_cast<double>(t)));
      const double v_hat = v[i] / (1 - std::pow(beta2, static_cast<double>(t)));
      if (r.decoupled) p[i] -= static_cast<double>(r.lr) * r.lambda * p[i];
      p[i] -= r.lr * m_hat / (std::sqrt(v_hat) + r.eps);
    }
  }
  double worst = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    // In units of lr: how far a parameter strayed, where each step moves it by lr or less.
    const double rounding = std::max(1.0, std::fabs(p[i])) * 0x1p-24 * 100;
    worst = std::max(worst, (std::fabs(static_cast<double>(state.p[i]) - p[i]) - rounding) / r.lr);
  }
  EXPECT_LT(worst, 1e-2);
}

INSTANTIATE_TEST_SUITE_P(Modes, AdamValues,
                         testing::Combine(testing::Values(AdamMode::adam, AdamMode::adamw),
                                          testing::Values(0.0F, 0.1F)));

TEST(Kernel, ScaleOfOneIsExactAndAScaleIsAppliedBeforeEverything) {
  const KernelVariant variant = {GradType::f32, CopyType::none, false, AdamMode::adam, true};
  for (const Isa isa : supported_isas()) {
    TestState scaled = random_state(1037, variant.grad, 31, false);
    TestState divided = scaled;
    for (float& g : divided.g32) g *= 0.37F;
    adam_kernel(isa, variant)(test_scalars(variant, 1, 0.37F), scaled.arrays(variant, 0, scaled.p.size()));
    adam_kernel(isa, variant)(test_scalars(variant, 1, 1.0F), divided.arrays(variant, 0, divided.p.size()));
    EXPECT_TRUE(scaled == divided);
  }
}

TEST(Kernel, HalfGradientsAreTheirFloatValues) {
  for (const GradType grad : {GradType::bf16, GradType::f16}) {
    const KernelVariant half = {grad, CopyType::none, false, AdamMode::adamw, true};
    const KernelVariant full = {GradType::f32, CopyType::none, false, AdamMode::adamw, true};
    TestState a = random_state(65536, grad, 37, false);
    for (std::size_t i = 0; i < a.g16.size(); ++i) {  // every 16-bit pattern, NaNs and denormals among them
      a.g16[i] = static_cast<std::uint16_t>(i);
      a.g32[i] = grad == GradType::bf16 ? f32_of_bf16(a.g16[i]) : f32_of_f16(a.g16[i]);
    }
    for (const Isa isa : supported_isas()) {
      TestState one = a;
      TestState other = a;
      adam_kernel(isa, half)(test_scalars(half, 1), one.arrays(half, 0, one.p.size()));
      adam_kernel(isa, full)(test_scalars(full, 1), other.arrays(full, 0, other.p.size()));
      EXPECT_TRUE(one == other) << name_of(isa);
    }
  }
}

TEST(Kernel, EveryKindOfParameterIsNarrowedAsInSoftware) {
  // lr = 0 leaves p as it is, so that the copy shows the conversion of any bit pattern but NaN payloads,
  // which the addition quiets before.
  for (const CopyType copy : {CopyType::bf16, CopyType::f16}) {
    const KernelVariant variant = {GradType::f32, copy, false, AdamMode::adamw, false};
    TestState state = random_state(1 << 20, variant.grad, 41, false);
    std::mt19937 random(43);
    for (float& p : state.p) p = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    AdamSettings settings;
    settings.lr = 0;
    const AdamScalars scalars = scalars_of(settings, advanced({}, settings, 1));
    for (const Isa isa : supported_isas()) {
      adam_kernel(isa, variant)(scalars, state.arrays(variant, 0, state.p.size()));
      for (std::size_t i = 0; i < state.p.size(); ++i) {
        ASSERT_EQ(state.copy[i], copy == CopyType::bf16 ? bf16_of_f32(state.p[i]) : f16_of_f32(state.p[i]))
            << name_of(isa) << ' ' << std::bit_cast<std::uint32_t>(state.p[i]);
      }
    }
  }
}

}  // namespace
}  // namespace zf
#include "engine/pool.hpp"



#include <atomic>
#include <chrono>
#include <filesystem>
#include <stdexcept>

#include <thread>
#include <vector>

#include "base/cpu_list.hpp"

#include "os/affinity.hpp"

namespace zf {
namespace {

std::vector<Pu> allowed_pus() {
  const CpuSet allowed = thread_affinity();
  return {allowed.begin(), allowed.end()};
}

/// How many threads there are once none is coming or going: /proc still shows one a moment after it was
/// joined, and ThreadSanitizer starts one of its own with the first of ours.
std::ptrdiff_t threads_of_this_process() {
  std::thread([] {}).join();
  std::ptrdiff_t last = -1;
  for (int look = 0; look < 100; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    const auto now = std::distance(begin(tasks), end(tasks));
    if (now == last) return now;
    last = now;
  }
  return last;
}

TEST(Pool, RunsEachMemberExactlyOnce) {
  for (std::size_t n = 1; n <= allowed_pus().size(); ++n) {
    std::vector<Pu> pus = allowed_pus();
    pus.resize(n);
    Pool pool(pus);
    ASSERT_EQ(pool.size(), n);
    std::vector<int> calls(n, 0);  // plain: run() orders the members' writes before its return
    std::vector<std::thread::id> threads(n);
    for (int round = 1; round <= 100; ++round) {
      pool.run([&](std::size_t member) {
        ++calls[member];
        threads[member] = std::this_thread::get_id();
      });
      for (const int count : calls) ASSERT_EQ(count, round);
    }
    EXPECT_EQ(threads[0], std::this_thread::get_id());
    std::sort(threads.begin(), threads.end());
    EXPECT_EQ(std::unique(threads.begin(), threads.end()), threads.end()) << "one thread each";
  }
}

TEST(Pool, MembersSitOnTheirPus) {
  std::vector<Pu> pus = allowed_pus();
  std::reverse(pus.begin(), pus.end());  // the order is the caller's
  Pool pool(pus);
  std::vector<CpuSet> seen(pus.size());
  pool.run([&](std::size_t member) { seen[member] = thread_affinity(); });
  for (std::size_t member = 0; member < pus.size(); ++member) EXPECT_EQ(seen[member], CpuSet{pus[member]});
}

TEST(Pool, GivesTheCallerItsMaskBack) {
  const CpuSet before = thread_affinity();
  {
    const Pool pool({before.last()});
    EXPECT_EQ(thread_affinity(), CpuSet{before.last()});
  }
  EXPECT_EQ(thread_affinity(), before);
}

TEST(Pool, SurvivesTenThousandEmptyRuns) {
  Pool pool(allowed_pus());
  std::atomic<std::size_t> calls = 0;
  for (int i = 0; i < 10'000; ++i)
    pool.run([&](std::size_t) { calls.fetch_add(1, std::memory_order_relaxed); });
  EXPECT_EQ(calls, 10'000 * pool.size());
}

TEST(Pool, WakesMembersThatHaveGoneToSleep) {
  Pool pool(allowed_pus());
  std::vector<int> calls(pool.size(), 0);
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // far beyond the spin
    pool.run([&](std::size_t member) {
      if (member != 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // and member 0 sleeps at the join
      ++calls[member];
    });
  }
  for (const int count : calls) EXPECT_EQ(count, 20);
}

TEST(Pool, ManyPoolsOneAfterTheOtherLeaveNothing) {
  const auto before = threads_of_this_process();
  for (int i = 0; i < 200; ++i) Pool pool(allowed_pus());
  EXPECT_EQ(threads_of_this_process(), before);
}

TEST(Pool, AnAbsentPuThrowsAndLeavesNoThread) {
  const CpuSet mask = thread_affinity();
  const auto before = threads_of_this_process();
  std::vector<Pu> last = allowed_pus();
  last.push_back(Pu{60000});
  std::vector<Pu> first = last;
  std::reverse(first.begin(), first.end());
  for (const std::vector<Pu>& pus : {last, first}) {
    try {
      const Pool pool(pus);
      FAIL() << "CPU 60000 does not exist";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::runtime_error);
      EXPECT_NE(std::string(error.what()).find("60000"), std::string::npos) << error.what();
    }
    EXPECT_EQ(threads_of_this_process(), before);
    EXPECT_EQ(thread_affinity(), mask);
  }
}

TEST(Pool, SpinsForABoundedTimeOnly) {
  if (allowed_pus().size() < 2) GTEST_SKIP() << "needs 2 CPUs, " << print(thread_affinity()) << " is allowed";
  // Two pools on the same CPUs: were waiting members to spin on, each would starve the other's.
  std::vector<Pu> pus = allowed_pus();
  Pool one(pus);
  std::thread other([&] {
    Pool pool(pus);
    for (int i = 0; i < 500; ++i) pool.run([](std::size_t) {});
  });
  for (int i = 0; i < 500; ++i) one.run([](std::size_t) {});
  other.join();
}

}  // namespace
}  // namespace zf
// A real kernel is stopped after each single instruction (ptrace), and repaired from what lies in memory
// then.

#include <sys/mman.h>
#include <sys/ptrace.h>

#include <unistd.h>

#include <csignal>
#include <cstring>

#include "undo_fixture.hpp"

namespace zf {
namespace {

constexpr std::uint64_t kEntry = 7;
constexpr std::size_t kElements = 40 + 3;  // whole vectors of every lane, and a tail
const KernelVariant kVariant = {GradType::f32, CopyType::bf16, true, AdamMode::adamw, true};

/// What the child steps and its parent looks at.
struct Shared {
  UndoLog log;
  alignas(64) float p[64], m[64], v[64], stale[64];
  alignas(64) std::uint16_t copy[64];
};

template <class From, class To>
void put(const From& from, To* to) {
  std::memcpy(to, from.data(), from.size() * sizeof *to);
}

template <class To, class From>
void get(const From* from, To& to) {
  std::memcpy(to.data(), from, to.size() * sizeof *from);
}

[[noreturn]] void be_stepped(Shared& shared, Isa isa, const TestState& begin, const AdamScalars& scalars) {
  AdamArrays arrays;
  arrays.p = shared.p;
  arrays.m = shared.m;
  arrays.v = shared.v;
  arrays.stale = shared.stale;
  arrays.copy = shared.copy;
  arrays.g = begin.g32.data();
  arrays.n = kElements;
  arrays.undo = &shared.log;
  const AdamKernel kernel = undo_kernel(isa, kVariant);
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(77);
  raise(SIGSTOP);
  begin_run(shared.log, kEntry, 0);
  kernel(scalars, arrays);
  _exit(0);
}

class KilledAtEveryInstruction : public testing::TestWithParam<Isa> {};

TEST_P(KilledAtEveryInstruction, LosesNothing) {
  const Isa isa = GetParam();
  if (!is_supported(isa)) GTEST_SKIP() << "this CPU has no " << name_of(isa);
  const AdamScalars scalars = test_scalars(kVariant, 3);
  const TestState begin = random_state(kElements, kVariant.grad, 5, true);
  TestState expected = begin;
  adam_kernel(isa, kVariant)(scalars, expected.arrays(kVariant, 0, kElements));

  auto* const shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(shared), MAP_FAILED);
  put(begin.p, shared->p);
  put(begin.m, shared->m);
  put(begin.v, shared->v);
  const pid_t child = fork();
  if (child == 0) be_stepped(*shared, isa, begin, scalars);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status)) GTEST_SKIP() << "ptrace is refused here";

  std::size_t instructions = 0;
  std::size_t torn = 0;
  Shared before = {};
  for (;; ++instructions) {
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): a copy of all its bytes
    if (instructions == 0 || std::memcmp(&before, shared, sizeof before) != 0) {
      std::memcpy(&before, shared, sizeof before);
      UndoLog log = before.log;
      torn += (log.runs[log.current].mark & kUndoBegun) != 0 ? 1 : 0;
      TestState state = begin;
      get(before.p, state.p);
      get(before.m, state.m);
      get(before.v, state.v);
      repair(log, kEntry, isa, kVariant, scalars, state);
      EXPECT_TRUE(state == expected) << "after instruction " << instructions;
      if (HasFailure()) kill(child, SIGKILL);
    }
    ASSERT_EQ(ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr), 0);
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status)) break;
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_GT(torn, 3 * kElements / 16);
  RecordProperty("instructions", static_cast<int>(instructions));
  RecordProperty("states_with_a_torn_vector", static_cast<int>(torn));
  munmap(shared, sizeof(Shared));
}

INSTANTIATE_TEST_SUITE_P(Undo, KilledAtEveryInstruction, testing::Values(Isa::scalar, Isa::avx2, Isa::avx512),
                         [](const auto& one) { return std::string(name_of(one.param)); });

}  // namespace
}  // namespace zf










namespace zf {
namespace {

/// Runs in a thread of its own, whose mask may be spoilt.
template <class Body>
void aside(Body body) {
  std::thread(body).join();
}

TEST(Affinity, BoundToEachCpuInTurn) {
  aside([] {
    const CpuSet all = thread_affinity();
    ASSERT_FALSE(all.empty());
    for (const Pu pu : all) {
      bind_this_thread({pu});
      EXPECT_EQ(thread_affinity(), CpuSet{pu});
      EXPECT_EQ(sched_getcpu(), pu.os_index);
    }
    bind_this_thread(all);
    EXPECT_EQ(thread_affinity(), all);
  });
}

TEST(Affinity, OtherThreadsKeepTheirs) {
  const CpuSet before = thread_affinity();
  aside([&] { bind_this_thread({before.first()}); });
  EXPECT_EQ(thread_affinity(), before);
}

TEST(Affinity, CpusThatTheKernelTrimsAreNamed) {
  aside([] {
    const CpuSet all = thread_affinity();
    CpuSet more = all;
    more.insert(Pu{8000});  // past the fixed cpu_set_t as well
    try {
      bind_this_thread(more);
      FAIL() << "bound to CPU 8000";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::runtime_error);
      EXPECT_THAT(error.what(), testing::HasSubstr("left out 8000"));
    }
  });
}

TEST(Affinity, NoCpuInCommonIsRefused) {
  aside([] {
    const CpuSet before = thread_affinity();
    EXPECT_THROW(bind_this_thread({Pu{8000}}), Error);
    EXPECT_EQ(thread_affinity(), before);
  });
}

TEST(Affinity, NoSuchThread) { EXPECT_THROW(thread_affinity(0x3ffffff), Error); }

}  // namespace
}  // namespace zf
#include "os/memory.hpp"


#include <numaif.h>



#include <cerrno>



#include "os/allowed.hpp"

namespace zf {
namespace {

class Mapping {
 public:
  explicit Mapping(std::size_t bytes)
      : bytes_(bytes),
        start_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Mapping() { munmap(start_, bytes_); }
  void* start() const { return start_; }

 private:
  std::size_t bytes_;
  void* start_;
};

int policy_of_this_thread() {
  int mode = -1;
  get_mempolicy(&mode, nullptr, 0, nullptr, 0);
  return mode;
}

std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

class Memory : public testing::Test {
 protected:
  void SetUp() override {
    mems_ = read_allowed(SysRoot()).mems;
    if (mems_.empty()) GTEST_SKIP() << "this kernel knows no NUMA nodes";
    if (get_mempolicy(nullptr, nullptr, 0, nullptr, 0) != 0)
      GTEST_SKIP() << "memory policies are refused here";
  }
  NodeSet mems_;
};

TEST_F(Memory, ThreadPolicyIsSetAndTakenBack) {
  std::thread([&] {
    ASSERT_EQ(set_thread_memory_policy(MemoryPolicy::bind, {mems_.first()}), std::nullopt);
    EXPECT_EQ(policy_of_this_thread(), MPOL_BIND);
    ASSERT_EQ(set_thread_memory_policy(MemoryPolicy::preferred, {mems_.first()}), std::nullopt);
    EXPECT_EQ(policy_of_this_thread(), MPOL_PREFERRED);
    ASSERT_EQ(set_thread_memory_policy(MemoryPolicy::preferred, {}), std::nullopt);
    EXPECT_EQ(policy_of_this_thread(), MPOL_DEFAULT);
  }).join();
}

TEST_F(Memory, HighestNodeOfTheMaskCounts) {
  // The kernel reads one bit less than it is told: a mask one short would make this an empty one, EINVAL.
  std::thread([&] {
    EXPECT_EQ(set_thread_memory_policy(MemoryPolicy::bind, {mems_.last()}), std::nullopt);
  }).join();
}

TEST_F(Memory, NodesThatDoNotExistAreRefusedInWords) {
  std::thread([&] {
    for (const int node : {63, 64, 900, 65535}) {
      if (mems_.contains(Node{node})) continue;
      const auto refusal = set_thread_memory_policy(MemoryPolicy::bind, {Node{node}});
      ASSERT_TRUE(refusal) << node;
      EXPECT_NE(refusal->find(std::to_string(node)), std::string::npos) << *refusal;
    }
  }).join();
}

TEST_F(Memory, SeveralPreferredNodesWork) {
  NodeSet nodes = mems_;
  nodes.insert(
      Node{mems_.last().os_index + 1});  // does not exist: the kernel drops it, or knows one node only
  std::thread([&] {
    EXPECT_EQ(set_thread_memory_policy(MemoryPolicy::preferred, nodes), std::nullopt);
    EXPECT_NE(policy_of_this_thread(), MPOL_DEFAULT);
  }).join();
}

TEST_F(Memory, TouchedPagesAreCountedOnTheirNode) {
  const std::size_t pages = 20000;  // more than one call's worth
  const Mapping mapping(pages * page());
  ASSERT_EQ(set_range_memory_policy(MemoryPolicy::bind, {mems_.first()}, mapping.start(), pages * page()),
            std::nullopt);
  madvise(mapping.start(), pages * page(), MADV_NOHUGEPAGE);  // a huge page would bring its neighbours in
  const std::size_t touched = 17000;
  std::memset(mapping.start(), 1, touched * page());

  const PageCounts counts = count_pages(mapping.start(), pages * page());
  if (counts.refusal) GTEST_SKIP() << *counts.refusal;
  EXPECT_EQ(counts.absent, pages - touched);
  ASSERT_EQ(counts.by_node.size(), 1u);
  EXPECT_EQ(counts.by_node.begin()->first, mems_.first());
  EXPECT_EQ(counts.by_node.begin()->second, touched);
}

TEST_F(Memory, PartOfAPageIsAPage) {
  const Mapping mapping(2 * page());
  std::memset(mapping.start(), 1, 2 * page());
  const PageCounts counts = count_pages(static_cast<char*>(mapping.start()) + page() - 1, 2);
  if (counts.refusal) GTEST_SKIP() << *counts.refusal;
  ASSERT_EQ(counts.by_node.size(), 1u);
  EXPECT_EQ(counts.by_node.begin()->second, 2u);
}

}  // namespace
}  // namespace zf
