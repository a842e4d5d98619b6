// Tests the parts of the worker: the shares of its threads, its command line, and a start by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <thread>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "paths.hpp"
#include "worker/arguments.hpp"
#include "worker/pool_cpus.hpp"
#include "worker/saving.hpp"
#include "worker/shares.hpp"
#include "worker/stepper.hpp"
#include "worker/trainer_watch.hpp"

namespace zf {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::size_t grains_of(const Slice& slice) { return (slice.size() + kSliceGrain - 1) / kSliceGrain; }

/// Waits until all members have saved the image up to a byte. Returns false after 30 s.
bool await_saved(const Arena& arena, std::uint64_t end) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (std::size_t i = 0; i < arena.control().members; ++i) {
    while (arena.member(i).saved.load(std::memory_order_acquire) < end) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
  }
  return true;
}

TEST(Saving, HasMoreMembersThanUnitsOfRoom) {
  constexpr std::size_t kMembers = 5;
  const Arena arena = Arena::create(arena_layout({{.elements = 1'000'003}}, kMembers));
  ControlBlock& control = arena.control();
  const GroupBlock& group = arena.group(0);
  auto* const params = arena.at<std::uint32_t>(group.place(ArrayKind::params).offset);
  for (std::uint32_t i = 0; i < group.elements; ++i) params[i] = i;
  control.save_room.store(2 * kImageUnit);
  const Saving saving(arena, Isa::scalar);
  std::vector<std::jthread> members;
  for (std::size_t i = 0; i < kMembers; ++i)
    members.emplace_back([&, i] { saving.copy(0, i, [] { return false; }); });
  bool is_whole = true;
  for (std::uint64_t begin = 0; is_whole && begin < control.image_bytes; begin += kImageUnit) {
    const std::uint64_t end = std::min(begin + kImageUnit, control.image_bytes);
    is_whole = await_saved(arena, end);
    const auto* const copy = arena.at<std::uint32_t>(arena.saved(begin, end - begin).offset);
    for (std::uint64_t i = begin / 4; is_whole && i < std::min(end / 4, group.elements); ++i)
      is_whole = copy[i - begin / 4] == i;
    control.save_released.store(end);
  }
  if (!is_whole) control.save_failed.store(1);  // ends the members
  EXPECT_TRUE(is_whole);
}

TEST(Saving, GivesWayToAStepWhichCopiesTheRest) {
  const Arena arena = Arena::create(arena_layout({{.elements = 1'000'003}, {.elements = 5}}, 1));
  ControlBlock& control = arena.control();
  const GroupBlock& group = arena.group(0);
  auto* const moments = arena.at<std::uint32_t>(group.place(ArrayKind::moment2).offset);
  for (std::uint32_t i = 0; i < group.elements; ++i) moments[i] = i;
  control.save_room.store(control.image_bytes);
  const Saving saving(arena, Isa::scalar);
  int units = 0;
  EXPECT_FALSE(saving.copy(0, 0, [&] { return units++ == 3; }));
  EXPECT_TRUE(is_saved(arena, 0, 3 * kImageUnit));
  EXPECT_FALSE(saving.is_over(0));
  saving.begin_step(0);
  EXPECT_FALSE(is_saved(arena, 0, 3 * kImageUnit));  // all of it, or nothing
  for (std::size_t at = 0; at < group.elements; at += 1000)
    saving.copy_elements(0, {at, std::min<std::size_t>(at + 1000, group.elements)});
  saving.end_step(0);
  EXPECT_TRUE(is_saved(arena, 0, control.image_bytes));
  EXPECT_FALSE(saving.is_over(1));
  const std::uint64_t begin = 2 * to_image_page(group.image_bytes(ArrayKind::params));
  const auto* const copy = arena.at<std::uint32_t>(arena.saved(begin, 4 * group.elements).offset);
  EXPECT_TRUE(std::equal(moments, moments + group.elements, copy));
}

/// Returns the 512-byte blocks that the arena takes.
long blocks_of(const Arena& arena) {
  struct stat status = {};
  return fstat(arena.fd(), &status) == 0 ? static_cast<long>(status.st_blocks) : -1;
}

TEST(Stepper, ASuccessorGetsNoMemoryForACopyThatFailedForWantOfIt) {
  Arena arena = Arena::create(arena_layout({{.elements = 1'000'003}}, 1));
  ControlBlock& control = arena.control();
  Pool pool(std::vector<Pu>{Pu{0}}, 0);
  Stepper stepper(arena, pool, Isa::scalar);
  stepper.place_memory();
  control.stats.start_ns.store(1);  // it was ready
  const long before = blocks_of(arena);
  control.save_room.store(4 * kImageUnit);
  stepper.place_memory();
  EXPECT_EQ(blocks_of(arena), before);
  EXPECT_EQ(control.save_reserved.load(), 0U);
}

TEST(Stepper, StepsNothingTwiceIfTheTrainerDiedWithACopyUnderWay) {
  Arena arena = Arena::create(arena_layout({{.elements = 1000}}, 1));
  ControlBlock& control = arena.control();
  GroupBlock& group = arena.group(0);
  auto* const params = arena.at<float>(group.place(ArrayKind::params).offset);
  auto* const grads = arena.at<float>(group.grads(0).offset);
  std::fill(params, params + group.elements, 1.0F);
  std::fill(grads, grads + group.elements, 1.0F);
  group.requests[0] = {.step = 1, .serial = 1, .seed = 0, .scalars = {}, .mode = AdamMode::adamw};
  group.requests[0].scalars.one_minus_beta1 = group.requests[0].scalars.eps = 1.0F;
  group.requests[0].scalars.step_size = -0.5F;
  group.requests[0].scalars.grad_scale = 1.0F;
  WorkEntry entry = {};
  entry.end_chunk = 1;
  for (const WorkKind kind : {WorkKind::save, WorkKind::step}) {
    entry.kind = kind;
    arena.entry(kind == WorkKind::save ? 0 : 1) = entry;
  }
  control.submitted.store(2);
  control.stop.store(1);
  // The last optimizer copied and stepped all. Then it died with its trainer, and the copy was given up.
  group.saved_by_step.store(SavedByStep::is_under_way);
  arena.member(0).chunks.store(1);
  control.save_failed.store(1);
  control.save_room.store(0);
  Pool pool(std::vector<Pu>{Pu{0}}, 0);
  Stepper(arena, pool, Isa::scalar).serve(0);
  EXPECT_EQ(control.completed.load(), 2U);
  EXPECT_EQ(group.committed.load(), 1U);
  EXPECT_TRUE(std::all_of(params, params + group.elements, [](float value) { return value == 1.0F; }));
}

TEST(Shares, CoverEveryChunkOnceAndAreEqualWithinAGrain) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::size_t members = 1 + random() % 70;
    std::vector<GroupCut> groups(1 + random() % 20);
    for (GroupCut& group : groups) {
      group.elements = random() % (random() % 2 == 0 ? 20 : 3'000'000);
      group.chunk_elements = (1 + random() % 1000) * kSliceGrain;
    }
    const auto shares = deal_shares(groups, members);
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
  const auto shares = deal_shares(std::vector<GroupCut>(16, {4 * kSliceGrain, 1024 * kSliceGrain}), 16);
  for (std::size_t member = 0; member < 16; ++member) {
    std::size_t grains = 0;
    for (const auto& group : shares) grains += grains_of(group.front()[member]);
    EXPECT_EQ(grains, 4U) << "member " << member;
  }
}

CpuSet cpus_of(const char* list) { return parse_cpu_list(list, "test"); }

std::vector<int> numbers_of(const PoolCpus& placed) {
  std::vector<int> numbers;
  for (const Pu pu : placed.of_thread) numbers.push_back(pu.os_index);
  return numbers;
}

TEST(PoolCpus, AreThoseOfThePlanIfAllAreUsable) {
  const PoolCpus placed = place_pool(cpus_of("7-11"), cpus_of("0-11"), cpus_of("0-63"));
  EXPECT_THAT(numbers_of(placed), testing::ElementsAre(7, 8, 9, 10, 11));
  EXPECT_TRUE(placed.lost.empty());
  EXPECT_EQ(placed.note, "");
}

TEST(PoolCpus, ThreadsKeepTheirOwnAndTheOthersAreSpreadOverTheRestOfThePool) {
  const PoolCpus placed = place_pool(cpus_of("7-11"), cpus_of("0-11"), cpus_of("0-6,9-63"));
  EXPECT_THAT(numbers_of(placed), testing::ElementsAre(9, 10, 9, 10, 11));
  EXPECT_EQ(placed.lost, cpus_of("7-8"));
  EXPECT_EQ(placed.note, "CPUs 7-8 of the pool are gone: 5 threads run on 9-11");
}

TEST(PoolCpus, AreTheHomesIfThePoolIsGone) {
  const PoolCpus placed = place_pool(cpus_of("2-4"), cpus_of("0-4"), cpus_of("0-1,5-9"));
  EXPECT_THAT(numbers_of(placed), testing::ElementsAre(0, 1, 0));
  EXPECT_EQ(placed.note, "CPUs 2-4 of the pool are gone: 3 threads run on 0-1");
}

TEST(PoolCpus, AreAnyUsableOnesIfTheHomeIsGone) {
  const PoolCpus placed = place_pool(cpus_of("4"), cpus_of("0-4"), cpus_of("8-9"));
  EXPECT_THAT(numbers_of(placed), testing::ElementsAre(8));
  EXPECT_EQ(placed.note, "CPU 4 of the pool is gone: 1 thread runs on 8");
}

TEST(PoolCpus, KeepTheNumberOfThreadsAndUseOnlyUsableCpusEvenly) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 500; ++round) {
    CpuSet pool;
    CpuSet home;
    CpuSet usable{Pu{63}};
    for (int cpu = 0; cpu < 64; ++cpu) {
      if (random() % 3 == 0) home.insert(Pu{cpu});
      if (random() % 6 == 0) pool.insert(Pu{cpu});
      if (random() % 2 == 0) usable.insert(Pu{cpu});
    }
    if (pool.empty()) continue;
    home |= pool;
    const PoolCpus placed = place_pool(pool, home, usable);
    ASSERT_EQ(placed.of_thread.size(), pool.size());
    const CpuSet used(placed.of_thread);
    ASSERT_EQ(placed.cpus, used);
    ASSERT_TRUE(usable.contains(used));
    const CpuSet left = pool.intersects(usable)   ? pool & usable
                        : home.intersects(usable) ? home & usable
                                                  : usable;
    ASSERT_TRUE(left.contains(used));
    for (const Pu pu : left) {
      const auto here = static_cast<std::size_t>(std::ranges::count(placed.of_thread, pu));
      ASSERT_LE(here, (pool.size() + left.size() - 1) / left.size());
    }
    ASSERT_EQ(placed.note.empty(), usable.contains(pool));
  }
}

TEST(PoolCpus, ThatNeighboursShareAreAllThatAreUsable) {
  EXPECT_EQ(place_shared_pool(cpus_of("0-7"), cpus_of("0-7"), cpus_of("0-63"), 4).cpus, cpus_of("0-7"));
  const PoolCpus placed = place_shared_pool(cpus_of("0-7"), cpus_of("0-7"), cpus_of("2-63"), 4);
  EXPECT_EQ(placed.cpus, cpus_of("2-7"));
  EXPECT_EQ(placed.lost, cpus_of("0-1"));
  EXPECT_EQ(placed.note, "CPUs 0-1 of the pool are gone: 4 threads run on 2-7");
  EXPECT_EQ(place_shared_pool(cpus_of("0-7"), cpus_of("0-7"), cpus_of("8-9"), 1).cpus, cpus_of("8-9"));
}

TEST(WorkerArguments, ThreadsThatShareTheirCpusAreCounted) {
  EXPECT_EQ(parse_worker_arguments({"--cpus", "0-7"}).threads, 0);
  EXPECT_EQ(parse_worker_arguments({"--cpus", "0-7", "--threads", "4"}).threads, 4);
  for (const char* wrong : {"0", "-1", "four", ""})
    EXPECT_THROW(parse_worker_arguments({"--cpus", "0-7", "--threads", wrong}), Error) << wrong;
}

TEST(WorkerArguments, SayWhereToRun) {
  const WorkerArguments arguments = parse_worker_arguments(
      {"--rank", "3", "--cpus", "7-9,11", "--home", "0-11", "--mems", "1", "--memory-policy", "bind"});
  EXPECT_EQ(arguments.rank, 3);
  EXPECT_EQ(arguments.cpus, (CpuSet{Pu{7}, Pu{8}, Pu{9}, Pu{11}}));
  EXPECT_EQ(arguments.home.size(), 12U);
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
  EXPECT_THAT(refusal_of({}), HasSubstr("--cpus is missing"));
  EXPECT_THAT(refusal_of({"--cpu", "0"}), HasSubstr("unknown argument \"--cpu\""));
  EXPECT_THAT(refusal_of({"--cpus"}), HasSubstr("--cpus has no value"));
  EXPECT_THAT(refusal_of({"--cpus", "4-2"}), HasSubstr("4-2"));
  EXPECT_THAT(refusal_of({"--cpus", "0", "--rank", "x"}), HasSubstr("\"x\" is not a rank"));
  EXPECT_THAT(refusal_of({"--cpus", "0", "--memory-policy", "strict"}),
              HasSubstr("\"strict\" is not a memory policy"));
}

TEST(TrainerWatch, AStarterThatEndedBeforeTheKernelWasAskedEndsTheWorker) {
  const pid_t living = gettid();
  pid_t ended = 0;
  std::thread([&] { ended = gettid(); }).join();
  while (kill(ended, 0) == 0) std::this_thread::yield();  // joined, and gone some microseconds later
  EXPECT_EXIT(end_with_starter(ended), testing::ExitedWithCode(0), "");
  EXPECT_EXIT((end_with_starter(living), _exit(7)), testing::ExitedWithCode(7), "");
}

TEST(TrainerWatch, AWorkerThatCannotSeeItsTrainerAnyMoreEnds) {
  const auto lose = [] {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) _exit(8);
    watch_trainer(FileDescriptor(ends[0]));
    close(ends[1]);  // the poll now finds what no pidfd has
    sleep(5);
    _exit(7);
  };
  EXPECT_EXIT(lose(), testing::ExitedWithCode(static_cast<int>(Exit::runtime_error)), "");
}

struct Outcome {
  int status = -1;
  std::string output;  ///< stdout and stderr
};

Outcome run(const std::string& arguments) {
  Outcome outcome;
  FILE* const pipe = popen((std::string(kBinDir) + "/zf-optimizer " + arguments + " 2>&1").c_str(), "re");
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
