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
constexpr std::size_t kElements = 40 + 3;  // whole vectors of every lane, and a tail
const KernelVariant kVariant = {ElementType::f32, ElementType::bf16, true, AdamMode::adamw, true};

/// The memory that the child steps and its parent inspects.
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
