#include "local/placing.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace zf {
namespace {

constexpr std::size_t kPage = 4096;

TEST(Placing, TakesTheWholeUnitsWithinARange) {
  EXPECT_EQ(whole_units({4096, 12288}, kPage), (MemoryRange{4096, 12288}));
  EXPECT_EQ(whole_units({4097, 12287}, kPage), MemoryRange{});
  EXPECT_EQ(whole_units({4000, 13000}, kPage), (MemoryRange{4096, 12288}));
  EXPECT_EQ(whole_units({100, 200}, kPage), MemoryRange{});
  EXPECT_EQ(whole_units({0, 0}, kPage), MemoryRange{});
  constexpr auto last = ~std::uintptr_t{0};
  EXPECT_EQ(whole_units({last - 10, last}, kPage), MemoryRange{}) << "it does not wrap around";
}

TEST(Placing, TouchesEachWholePageAndKeepsWhatItHolds) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  constexpr std::size_t pages = 300;
  const std::size_t bytes = pages * page;
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  ASSERT_EQ(::madvise(mapped, bytes, MADV_NOHUGEPAGE), 0);
  auto* const at = static_cast<unsigned char*>(mapped);
  at[7 * page] = 42;
  CallerAlone team;
  place_memory(team, {}, at + 1, bytes - 2);  // the first page and the last one are not whole
  std::vector<unsigned char> present(pages);
  ASSERT_EQ(::mincore(mapped, bytes, present.data()), 0);
  for (std::size_t i = 0; i < pages; ++i) EXPECT_EQ(present[i] & 1, i != 0 && i != pages - 1) << "page " << i;
  EXPECT_EQ(at[7 * page], 42);
  EXPECT_EQ(at[8 * page], 0);
  ::munmap(mapped, bytes);
}

TEST(Placing, SaysWhichPolicyWasRefused) {
  std::vector<unsigned char> memory(16 * kPage);
  CallerAlone team;
  EXPECT_EQ(place_memory(team, {}, memory.data(), memory.size()), "");
  const std::string note =
      place_memory(team, {.mems = {Node{1000}}, .policy = MemoryPolicy::bind}, memory.data(), memory.size());
  EXPECT_NE(note.find("mbind(bind, node 1000) was refused"), std::string::npos) << note;
}

RankBinding divided() {
  RankBinding binding;
  binding.home.cpus = {Pu{0}, Pu{1}, Pu{2}, Pu{3}};
  binding.training.cpus = {Pu{0}, Pu{1}};
  binding.optimizer.cpus = {Pu{2}, Pu{3}};
  return binding;
}

TEST(Placing, NamesTheIdleCpusOfADividedPlanAndTheCommand) {
  EXPECT_EQ(
      idle_pool_note(divided(), divided().training.cpus),
      "CPUs 2-3 of the plan's optimizer stay idle: the step runs in this process; make a plan for that: "
      "zf-tune tune --framework torch --mode wait");
  EXPECT_EQ(idle_pool_note(divided(), {Pu{0}, Pu{1}, Pu{2}}).substr(0, 40),
            "CPU 3 of the plan's optimizer stays idle");
  EXPECT_EQ(idle_pool_note(divided(), divided().home.cpus), "") << "the process has the whole home";
  RankBinding shared = divided();
  shared.shared = true;
  EXPECT_EQ(idle_pool_note(shared, {Pu{0}}), "");
  RankBinding large = divided();
  for (int cpu = 10; cpu < 200; cpu += 2) large.optimizer.cpus.insert(Pu{cpu});
  const std::string note = idle_pool_note(large, {Pu{0}});
  EXPECT_EQ(note.substr(0, 8), "97 CPUs ");
  EXPECT_LT(note.size(), 200U);
}

}  // namespace
}  // namespace zf
