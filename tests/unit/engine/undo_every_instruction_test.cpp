// Stops a real kernel after every instruction (ptrace), and repairs its slice from the memory at that point.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "undo_fixture.hpp"

namespace zf {
namespace {

constexpr std::uint64_t kEntry = 7;
constexpr std::size_t kSteppedElements = 40 + 3;  // whole vectors of every lane, and a tail

KernelVariant variant_of(StateFormat format) {
  if (format == StateFormat::fp32) return {ElementType::f32, ElementType::bf16, true, AdamMode::adamw, true};
  const ElementType copy = has_split_masters(format) ? ElementType::none : ElementType::bf16;
  KernelVariant variant = {ElementType::f32, copy, false, AdamMode::adamw, true};
  variant.format = format;
  return variant;
}

/// The memory that the child steps and its parent inspects.
struct Shared {
  UndoLog log;
  alignas(64) float p[64], m[64], v[64], stale[64];
  alignas(64) std::uint16_t copy[64], low[64], m16[64], v16[64];
};

template <class From, class To>
void put(const From& from, To* to) {
  std::memcpy(to, from.data(), from.size() * sizeof *to);
}

template <class To, class From>
void get(const From* from, To& to) {
  std::memcpy(to.data(), from, to.size() * sizeof *from);
}

[[noreturn]] void be_stepped(Shared& shared, Isa isa, const KernelVariant& variant, const TestState& begin,
                             const AdamScalars& scalars) {
  AdamArrays arrays;
  const bool halves = has_bf16_moments(variant.format);
  arrays.p = has_split_masters(variant.format) ? static_cast<void*>(shared.low) : shared.p;
  arrays.m = halves ? static_cast<void*>(shared.m16) : shared.m;
  arrays.v = halves ? static_cast<void*>(shared.v16) : shared.v;
  arrays.dither = kTestDither;
  arrays.stale = shared.stale;
  arrays.copy = shared.copy;
  arrays.g = begin.g32.data();
  arrays.n = kSteppedElements;
  arrays.undo = &shared.log;
  const AdamKernel kernel = undo_kernel(isa, variant);
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(77);
  raise(SIGSTOP);
  begin_run(shared.log, kEntry, 0);
  kernel(scalars, arrays);
  _exit(0);
}

class KilledAtEveryInstruction : public testing::TestWithParam<std::tuple<Isa, StateFormat>> {};

TEST_P(KilledAtEveryInstruction, LosesNothing) {
  const auto [isa, format] = GetParam();
  const KernelVariant variant = variant_of(format);
  if (!is_supported(isa)) GTEST_SKIP() << "this CPU has no " << name_of(isa);
  const AdamScalars scalars = test_scalars(variant, 3);
  TestState begin = random_state(kSteppedElements, variant.grad, 5, true);
  to_format(begin, format);
  begin.low.resize(kSteppedElements);
  begin.m16.resize(kSteppedElements);
  begin.v16.resize(kSteppedElements);
  TestState expected = begin;
  adam_kernel(isa, variant)(scalars, expected.arrays(variant, 0, kSteppedElements));

  auto* const shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(shared), MAP_FAILED);
  put(begin.p, shared->p);
  put(begin.m, shared->m);
  put(begin.v, shared->v);
  put(begin.copy, shared->copy);
  put(begin.low, shared->low);
  put(begin.m16, shared->m16);
  put(begin.v16, shared->v16);
  const pid_t child = fork();
  if (child == 0) be_stepped(*shared, isa, variant, begin, scalars);
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
      get(before.copy, state.copy);
      get(before.low, state.low);
      get(before.m16, state.m16);
      get(before.v16, state.v16);
      repair(log, kEntry, isa, variant, scalars, state);
      EXPECT_TRUE(state == expected) << "after instruction " << instructions;
      if (HasFailure()) kill(child, SIGKILL);
    }
    ASSERT_EQ(ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr), 0);
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status)) break;
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_GT(torn, 3 * kSteppedElements / 16);
  RecordProperty("instructions", static_cast<int>(instructions));
  RecordProperty("states_with_a_torn_vector", static_cast<int>(torn));
  munmap(shared, sizeof(Shared));
}

INSTANTIATE_TEST_SUITE_P(Undo, KilledAtEveryInstruction,
                         testing::Combine(testing::Values(Isa::scalar, Isa::avx2, Isa::avx512),
                                          testing::Values(StateFormat::fp32, StateFormat::bf16,
                                                          StateFormat::split, StateFormat::bf16_split)),
                         [](const auto& one) {
                           const std::string format = name_of(std::get<1>(one.param));
                           return std::string(name_of(std::get<0>(one.param))) + '_' +
                                  format.substr(0, format.find('+')) +
                                  (format == "bf16+split" ? "_split" : "");
                         });

}  // namespace
}  // namespace zf
