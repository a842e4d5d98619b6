#include "local/local_stepper.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "tensors.hpp"

namespace zf {
namespace {

TEST(LocalStepper, AnyNumberOfThreadsGivesTheSameBits) {
  const std::vector<std::uint32_t> wanted = bits_of_one_thread();
  for (std::size_t threads = 1; threads <= 4; ++threads) {
    Tensors tensors(kTestSizes);
    for (int i = 0; i < 3; ++i) tensors.step({.openmp = false, .threads = threads});
    EXPECT_EQ(tensors.bits(), wanted) << threads << " threads";
    EXPECT_EQ(tensors.counters, std::vector<float>(kTestSizes.size(), 3.0F));
    const LocalFigures figures = LocalStepper::of_this_process().figures();
    EXPECT_EQ(figures.team, threads == 1 ? "caller" : "own");
    EXPECT_EQ(figures.last_threads, threads);
  }
}

TEST(LocalStepper, AListMayChangeFromCallToCall) {
  Tensors large(kTestSizes);
  Tensors small({3000, 9000});
  Tensors small_alone({3000, 9000});
  StepList list;  // one handle for all of them
  LocalStepper& stepper = LocalStepper::of_this_process();
  const auto step = [&](Tensors& tensors, std::size_t threads) {
    stepper.step(list, {.openmp = false, .threads = threads},
                 [&](std::vector<TensorStep>& steps, std::vector<float*>& counts) {
                   tensors.fill(steps, counts, stepper.isa());
                 });
  };
  for (const std::size_t threads : {2U, 3U, 1U}) {
    step(large, threads);
    step(small, threads);
    step(small, threads);
    small_alone.step({.openmp = false, .threads = 1});
    small_alone.step({.openmp = false, .threads = 1});
  }
  EXPECT_EQ(large.bits(), bits_of_one_thread());
  EXPECT_EQ(small.bits(), small_alone.bits());
}

TEST(LocalStepper, AListIsCutAnewForAnotherNumberOfThreads) {
  Tensors tensors(kTestSizes);
  for (const std::size_t threads : {2U, 3U, 1U}) {
    tensors.step({.openmp = false, .threads = threads});
    EXPECT_EQ(tensors.list.batches().front().members(), threads);
  }
}

TEST(LocalStepper, TensorsThatOverlapAreSteppedInTheOrderOfTheList) {
  // The second is a part of the first, with moments of its own; the third is the first once more; the fourth
  // has the second's moments.
  const auto step = [](bool one_call, std::size_t threads) {
    Tensors tensors({200'000, 100'000, 200'000, 100'000});
    LocalStepper& stepper = LocalStepper::of_this_process();
    std::vector<TensorStep> all;
    std::vector<float*> counts;
    tensors.fill(all, counts, stepper.isa());
    all[1].p = static_cast<float*>(all[0].p) + 50'000;
    all[2].p = all[0].p;
    all[3].m = all[1].m;
    all[3].v = all[1].v;
    StepList list;
    for (std::size_t first = 0; first < all.size(); first += one_call ? all.size() : 1) {
      stepper.step(list, {.openmp = false, .threads = threads}, [&](std::vector<TensorStep>& steps, auto&) {
        steps.assign(all.begin() + static_cast<std::ptrdiff_t>(first),
                     one_call ? all.end() : all.begin() + static_cast<std::ptrdiff_t>(first) + 1);
      });
    }
    return tensors.bits();
  };
  for (int round = 0; round < 5; ++round) EXPECT_EQ(step(true, 3), step(false, 1));
}

TEST(LocalStepper, ATensorWhoseArraysOverlapIsNamedAndNothingIsStepped) {
  Tensors tensors({5000, 6000});
  const std::vector<std::uint32_t> before = tensors.bits();
  LocalStepper& stepper = LocalStepper::of_this_process();
  const auto step = [&] {
    stepper.step(tensors.list, {}, [&](std::vector<TensorStep>& steps, std::vector<float*>& counts) {
      tensors.fill(steps, counts, stepper.isa());
      steps[1].v = static_cast<float*>(steps[1].m) + 1000;
    });
  };
  try {
    step();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "tensor 1: state[0] and state[1] overlap in memory; give each array memory of its own");
    EXPECT_EQ(error.exit(), Exit::usage);
  }
  EXPECT_THROW(step(), Error) << "it is not taken for a list that was good before";
  EXPECT_EQ(tensors.bits(), before);
  EXPECT_EQ(tensors.counters, std::vector<float>(2, 0.0F));
}

TEST(LocalStepper, CallsOfSeveralThreadsTakeTurns) {
  constexpr int steps = 300;
  const std::vector<std::size_t> sizes = {9000, 20, 5000};
  Tensors alone(sizes);
  for (int step = 0; step < steps; ++step) alone.step({.openmp = false, .threads = 1});
  std::vector<Tensors> tensors(3, Tensors(sizes));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    threads.emplace_back([&tensors, i] {
      for (int step = 0; step < steps; ++step) tensors[i].step({.openmp = false, .threads = i + 1});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Tensors& each : tensors) EXPECT_EQ(each.bits(), alone.bits());
}

TEST(LocalStepper, ASmallStepWakesNobody) {
  Tensors tensors({100});
  tensors.step({.openmp = false, .threads = 4});
  EXPECT_EQ(LocalStepper::of_this_process().figures().team, "caller");
}

TEST(LocalStepper, AForkedChildWorksAloneWhileAThreadOfTheParentSteps) {
  const std::vector<std::uint32_t> wanted = bits_of_one_thread();
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    Tensors tensors(kTestSizes);
    while (!stop) tensors.step({.openmp = false, .threads = 2});
  });
  for (int round = 0; round < 5; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::alarm(60);  // instead of a hang
      Tensors tensors(kTestSizes);
      LocalStepper::of_this_process().add_handle();
      for (int i = 0; i < 3; ++i) tensors.step({.openmp = false, .threads = 2});
      const LocalFigures figures = LocalStepper::of_this_process().figures();
      LocalStepper::remove_handle();
      ::_exit(tensors.bits() == wanted && figures.team == "caller" && figures.steps == 3 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  busy.join();
  Tensors tensors(kTestSizes);
  tensors.step({.openmp = false, .threads = 2});
  EXPECT_EQ(LocalStepper::of_this_process().figures().team, "own") << "the parent still has its helpers";
}

TEST(LocalStepper, HelpersEndWithTheLastHandle) {
  LocalStepper& stepper = LocalStepper::of_this_process();
  stepper.add_handle();
  stepper.add_handle();
  Tensors tensors(kTestSizes);
  for (int i = 0; i < 3; ++i) {
    tensors.step({.openmp = false, .threads = 3});
    EXPECT_GE(count_helpers(), 2U);
    if (i == 2) break;
    LocalStepper::remove_handle();
    if (i == 0) {
      EXPECT_GE(count_helpers(), 2U);  // another handle is open
    } else {
      EXPECT_TRUE(helpers_become(0));  // they come again when they are needed
    }
  }
  EXPECT_EQ(tensors.bits(), bits_of_one_thread());
}

}  // namespace
}  // namespace zf
