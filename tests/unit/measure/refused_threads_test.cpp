// Tests what happens when the system refuses a thread. pthread_create of this program counts the threads.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <new>

#include "base/error.hpp"
#include "children/child_output.hpp"
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
  return create(thread, attributes, run_counted, start);
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

}  // namespace
}  // namespace zf

#endif
