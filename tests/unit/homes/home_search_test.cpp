// Holds the search for homes against all divisions of small machines, and against longer searches.
#include "homes/home_search.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "all_searches.hpp"
#include "brute_force.hpp"
#include "os/standard_streams.hpp"
#include "search_cases.hpp"

namespace zf {
namespace {

Domains domains_of(const SearchCase& c) { return domains_of(c.topology, c.allowed, c.preferences); }

std::string print(const Domains& domains, const Division& division) {
  std::string text;
  for (const std::vector<int>& home : division) {
    CpuSet cpus;
    for (const int core : home) cpus |= domains.cores[at(core)].cpus;
    text += (text.empty() ? "" : " | ") + print(cpus);
  }
  return text;
}

/// Returns the cases in which some division is better.
std::vector<std::string> worse_than_all(unsigned first, unsigned cases, int most_cores) {
  std::vector<std::string> worse;
  std::int64_t tried = 0;
  for (unsigned seed = first; seed < first + cases; ++seed) {
    const SearchCase c = small_case(seed, most_cores);
    const Domains domains = domains_of(c);
    const FoundDivision found = find_division(domains);
    const BruteForce all(domains);
    tried += all.tried();
    EXPECT_TRUE(found.is_settled) << c.words;
    if (score_of(domains, all.best()) < score_of(domains, found.division)) {
      worse.push_back(format_text("{}: {}, and better {}", c.words, print(domains, found.division),
                                  print(domains, all.best())));
    }
  }
  print_stdout("{} machines, {} divisions\n", cases, tried);
  return worse;
}

TEST(HomeSearch, NoDivisionOfASmallMachineIsBetter) {
  const auto worse =
      all_searches() ? worse_than_all(0, 3000, 10) : worse_than_all(100'000, 500 / ZF_FEWER, 8);
  EXPECT_THAT(worse, testing::IsEmpty());
}

/// Returns of how many of these jobs a search ten times as long finds a better division.
int worse_than_longer(unsigned step) {
  int worse = 0;
  for (unsigned number = 0; number < kMasks; number += step) {
    const SearchCase c = mask_case(number);
    const Domains domains = domains_of(c);
    const FoundDivision found = find_division(domains);
    const FoundDivision longer = find_division(domains, 10 * kMostComparisons);
    EXPECT_TRUE(found.is_settled) << c.words;
    if (score_of(domains, found.division) <= score_of(domains, longer.division)) continue;
    ++worse;
    print_stdout("{}: {}, and better {}\n", c.words, print(domains, found.division),
                 print(domains, longer.division));
  }
  return worse;
}

TEST(HomeSearch, ALongerSearchRarelyFindsBetter) {
  const unsigned step = all_searches() ? 1 : 57 * ZF_FEWER;
  EXPECT_LE(worse_than_longer(step) * 50, static_cast<int>(kMasks / step + 50)) << "one in 50, or one of few";
}

TEST(HomeSearch, TheLimitIsSaid) {
  const SearchCase c = mask_case(1);
  const FoundDivision found = find_division(domains_of(c), 3);
  EXPECT_EQ(found.comparisons, 3);
  EXPECT_FALSE(found.is_settled);
}

TEST(HomeSearch, WhatCannotBeBetterEndsAtOnce) {
  const Topology topology = make_topology({.packages = 2, .l3_per_node = 12, .cores_per_l3 = 8});
  const FoundDivision found = find_division(domains_of(topology, topology.cpus, std::vector<Preference>(8)));
  EXPECT_EQ(found.comparisons, 0);
}

}  // namespace
}  // namespace zf
