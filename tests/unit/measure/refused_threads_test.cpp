// Tests what happens when the system refuses a thread. pthread_create of this program counts the threads.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/format.hpp"
#include "children/child_output.hpp"
#include "measure/machine_meter.hpp"
#include "measure/synthetic_training.hpp"
#include "os/affinity.hpp"

#ifndef ZF_SANITIZED

namespace {

std::atomic<int> running = 0;
std::atomic<int> most = 1'000'000;  ///< threads that may run at once

struct Start {
  void* (*main)(void*);
  void* argument;
};

void* run_counted(void* given) {
  const std::unique_ptr<Start> start(static_cast<Start*>(given));
  void* const result = start->main(start->argument);
  --running;
  return result;
}

}  // namespace

/// Takes the place of the C library's function, which the standard library calls.
extern "C" [[gnu::visibility("default")]] int create_or_refuse(pthread_t* thread,
                                                               const pthread_attr_t* attributes,
                                                               void* (*main)(void*), void* argument) noexcept
    __asm__("pthread_create");
extern "C" int create_or_refuse(pthread_t* thread, const pthread_attr_t* attributes, void* (*main)(void*),
                                void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (running >= most) return EAGAIN;
  auto* start = new (std::nothrow) Start{main, argument};
  if (start == nullptr) return EAGAIN;
  ++running;
  const int error = create(thread, attributes, run_counted, start);
  if (error != 0) {
    --running;
    delete start;
  }
  return error;
}

namespace zf {
namespace {

/// Trains for one step where at most `allowed` threads may run, and says how that ended.
std::string train_with(int allowed, const TrainingDemand& demand) {
  most = running + allowed;
  try {
    SyntheticTraining training(thread_affinity(), 4, 1U << 20, demand);
    training.start(1);
    training.wait();
    return "trained";
  } catch (const Error&) {
    return "refused";
  }
}

TEST(RefusedThreads, AreAnErrorOfTheTrainingSideWhicheverItIs) {
  const TrainingDemand on_a_gpu{10, 1000, 1000};
  const TrainingDemand on_cpus{1, 1000, 0, 0, 0, 0, 0, {}, 1'000'000};  // on three more threads
  for (const auto& job : {std::pair(on_a_gpu, 6), std::pair(on_cpus, 9)}) {
    for (int allowed = 0; allowed < 12; ++allowed) {
      const ChildOutput output =
          output_of_child([&] { return train_with(allowed, job.first); }, std::chrono::seconds(20));
      EXPECT_EQ(output.end, ChildOutput::End::done) << allowed;
      EXPECT_EQ(output.text, allowed < job.second ? "refused" : "trained") << allowed << " of " << job.second;
    }
  }
}

constexpr std::string_view kNoOtherUser = "no process of another user can be started here";

/// Becomes a user who has no other process and may have `most_processes` threads, in all ranks together.
bool become_limited(rlim_t most_processes) {
  // Containers beside this one may have the same number of a process, and share the kernel's counts.
  const auto alone = static_cast<uid_t>(0x40000000 + std::random_device()() % 0x30000000);
  const rlimit limit{most_processes, most_processes};
  return ::setrlimit(RLIMIT_NPROC, &limit) == 0 && ::setresgid(alone, alone, alone) == 0 &&
         ::setresuid(alone, alone, alone) == 0;
}

/// Measures two ranks again and again, and returns "" or the first answer that is neither a measurement nor
/// an error with its reason.
std::string wrong_answer_of_two_ranks(rlim_t most_processes, int& measured) {
  constexpr int kVisits = 20;
  if (!become_limited(most_processes)) return std::string(kNoOtherUser);
  RankSplit rank;
  rank.training = thread_affinity();
  rank.pool = {rank.training.first()};
  rank.reserved_cores = 2;
  const RankWork work{.elements = 10'000, .training = TrainingDemand{10, 1000, 1000}, .isa = chosen_isa()};
  MachineMeter meter(work, 1);
  for (int visit = 0; visit < kVisits; ++visit) {
    try {
      meter.measure({{}, "two ranks", {rank, rank}}, {.samples = 1});
      ++measured;
    } catch (const Error& error) {
      if (!std::string_view(error.what()).ends_with(kTaskLimitHint)) return error.what();
    }
  }
  return "";
}

TEST(RefusedThreads, RanksThatStartAtOnceUnderOneLimitDoNotTakeEachOthers) {
  // This process, two ranks, and four threads in each: the copier, the driver and two of oneTBB.
  constexpr rlim_t kEnough = 11;
  for (rlim_t most_processes = 2; most_processes <= kEnough; ++most_processes) {
    const ChildOutput output = output_of_child(
        [&] {
          int measured = 0;
          const std::string wrong = wrong_answer_of_two_ranks(most_processes, measured);
          return wrong.empty() ? format_text("measured {}", measured) : wrong;
        },
        std::chrono::seconds(60));
    ASSERT_EQ(output.end, ChildOutput::End::done) << most_processes;
    if (output.text == kNoOtherUser) GTEST_SKIP() << kNoOtherUser;
    EXPECT_EQ(output.text, most_processes < kEnough ? "measured 0" : "measured 20") << most_processes;
  }
}

}  // namespace
}  // namespace zf

#endif
