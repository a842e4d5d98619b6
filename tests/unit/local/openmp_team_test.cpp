// A program of its own: it loads an OpenMP runtime, as Python does when it imports torch.
#include "local/openmp_team.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "paths.hpp"
#include "tensors.hpp"

namespace zf {
namespace {

class Openmp : public testing::Test {
 protected:
  void SetUp() override {
#ifdef ZF_SANITIZED_THREAD
    GTEST_SKIP()
        << "ThreadSanitizer does not see how an OpenMP runtime that is built without it synchronizes";
#endif
    ::setenv("OMP_THREAD_LIMIT", "3", 0);  // read when the runtime is loaded
    torch_ = dlopen((std::string(kLibDir) + "/imitated/libtorch_cpu.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(torch_, nullptr) << dlerror();
    set_threads(2);
    if (LocalStepper::of_this_process().openmp_path().empty()) LocalStepper::of_this_process().add_handle();
  }
  void set_threads(int threads) const {
    reinterpret_cast<void (*)(int)>(dlsym(torch_, "torch_set_num_threads"))(threads);
  }
  /// Calls work() on every thread of a region of torch.
  template <class Work>
  void in_region(Work work) const {
    using Parallel = void (*)(void (*)(void*), void*);
    reinterpret_cast<Parallel>(dlsym(torch_, "torch_parallel"))(
        [](void* data) { (*static_cast<Work*>(data))(); }, &work);
  }
  static std::string_view last_team() { return LocalStepper::of_this_process().figures().team; }

  void* torch_ = nullptr;
};

TEST_F(Openmp, FindsTheRuntimeThatTorchIsLinkedTo) {
  const auto team = OpenmpTeam::find();
  ASSERT_NE(team, nullptr);
  EXPECT_NE(team->path().find("omp.so"), std::string::npos) << team->path();
  EXPECT_EQ(team->size(), 2U);
  set_threads(1);
  EXPECT_EQ(team->size(), 1U) << "it is the runtime that torch's calls reach";
  if (const char* preloaded = std::getenv("LD_PRELOAD")) {
    EXPECT_NE(team->path().find("libomp"), std::string::npos) << team->path() << " with " << preloaded;
  }
}

TEST_F(Openmp, RunsOnTheThreadsOfTorch) {
  const auto team = OpenmpTeam::find();
  std::mutex mutex;
  std::set<std::thread::id> of_torch;
  std::set<std::thread::id> of_team;
  std::set<std::size_t> members_seen;
  in_region([&] {
    const std::lock_guard lock(mutex);
    of_torch.insert(std::this_thread::get_id());
  });
  team->run([&](std::size_t member, std::size_t members) {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(members, 2U);
    members_seen.insert(member);
    of_team.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(of_team, of_torch);
  EXPECT_EQ(members_seen, (std::set<std::size_t>{0, 1}));
}

TEST_F(Openmp, AnyNumberOfThreadsGivesTheSameBits) {
  const std::vector<std::uint32_t> wanted = bits_of_one_thread();
  for (const int threads : {1, 2, 3}) {
    set_threads(threads);
    Tensors tensors(kTestSizes);
    for (int i = 0; i < 3; ++i) tensors.step({});
    EXPECT_EQ(tensors.bits(), wanted) << threads << " threads";
    EXPECT_EQ(last_team(), threads == 1 ? "caller" : "openmp");
    EXPECT_EQ(LocalStepper::of_this_process().figures().last_threads, static_cast<std::size_t>(threads));
  }
}

TEST_F(Openmp, ATeamSmallerThanItsSizeDoesAll) {
  const std::vector<std::uint32_t> wanted = bits_of_one_thread();
  set_threads(5);  // and the limit is 3
  Tensors tensors(kTestSizes);
  for (int i = 0; i < 3; ++i) tensors.step({});
  EXPECT_EQ(tensors.bits(), wanted);
  EXPECT_EQ(last_team(), "openmp");
  EXPECT_EQ(LocalStepper::of_this_process().figures().last_threads, 3U);
}

TEST_F(Openmp, InsideARegionEachCallerWorksAlone) {
  const std::vector<std::uint32_t> wanted = bits_of_one_thread();
  std::atomic<int> right = 0;
  in_region([&] {
    Tensors tensors(kTestSizes);
    for (int i = 0; i < 3; ++i) tensors.step({});
    right += tensors.bits() == wanted && last_team() == "caller" ? 1 : 0;
  });
  EXPECT_EQ(right, 2);
  Tensors tensors(kTestSizes);
  tensors.step({});
  EXPECT_EQ(last_team(), "openmp");
}

TEST_F(Openmp, AForkedChildWorksAloneAfterARegionOfItsParent) {
  const std::vector<std::uint32_t> wanted = bits_of_one_thread();
  Tensors warm(kTestSizes);
  warm.step({});
  ASSERT_EQ(last_team(), "openmp");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(30);  // a region would hang here
    Tensors tensors(kTestSizes);
    for (int i = 0; i < 3; ++i) tensors.step({});
    ::_exit(tensors.bits() == wanted && last_team() == "caller" ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Openmp, AHandleMayRefuseIt) {
  Tensors tensors(kTestSizes);
  tensors.step({.openmp = false, .threads = 2});
  EXPECT_EQ(last_team(), "own");
}

}  // namespace
}  // namespace zf
