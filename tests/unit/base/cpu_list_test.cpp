#include "base/cpu_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.hpp"

namespace zf {
namespace {

CpuSet parse(std::string_view text) { return parse_cpu_list(text, "--allowed"); }

TEST(CpuList, ReadsWhatSlurmWrites) {
  const CpuSet cpus = parse("0,4-11,21-26,30-46");
  EXPECT_EQ(cpus.size(), 32U);
  EXPECT_TRUE(cpus.contains(Pu{11}));
  EXPECT_FALSE(cpus.contains(Pu{12}));
  EXPECT_EQ(cpus.first(), Pu{0});
  EXPECT_EQ(cpus.last(), Pu{46});
}

TEST(CpuList, ReadsStridesGroupsBlanksAndAnyOrder) {
  EXPECT_EQ(print(parse("0-7:2")), "0,2,4,6");
  EXPECT_EQ(print(parse("0-7:2/4")), "0-1,4-5");
  EXPECT_EQ(print(parse(" 8 , 4 - 6 ,5\n")), "4-6,8");
  EXPECT_TRUE(parse("").empty());
  EXPECT_TRUE(parse(" \n").empty());
}

TEST(CpuList, ReadsWhatKernelsOfEl7WriteBehindAList) {
  using namespace std::string_view_literals;
  EXPECT_EQ(print(parse("0-3\n\0"sv)), "0-3");
  EXPECT_EQ(print(parse("0-3,8 \0\0"sv)), "0-3,8");
  EXPECT_TRUE(parse("\n\0"sv).empty());
}

TEST(CpuList, RefusesWhatIsNoListAndNamesThePart) {
  for (const char* wrong : {"4-2", "a", "1,,2", "-1", "1-", "1-2-3", "0:2", "0-3:0", "0-3:3/2", "1,",
                            "99999999999", "65536", "0x1", "1 2", "+1"}) {
    try {
      parse(wrong);
      ADD_FAILURE() << wrong << " was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::usage);
      EXPECT_THAT(error.what(), testing::HasSubstr("--allowed")) << wrong;
      EXPECT_THAT(error.what(), testing::HasSubstr(wrong));
    }
  }
}

TEST(CpuList, ALongListOfTheSameIsASmallSet) {
  std::string text = "0-65535";
  for (int i = 0; i < 2000 / ZF_FEWER; ++i) text += ",0-65535";
  EXPECT_EQ(print(parse(text)), "0-65535");
}

TEST(CpuList, ParseOfPrintIsTheSameSet) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::vector<Pu> pus;
    const int span = 1 + static_cast<int>(random() % 400);
    for (int i = 0; i < span; ++i) {
      if (random() % 3 != 0) pus.push_back(Pu{static_cast<int>(random() % 1024)});
    }
    const CpuSet cpus(pus);
    EXPECT_EQ(parse(print(cpus)), cpus);
  }
}

TEST(CpuList, ANounIsSingularOrPlural) {
  EXPECT_EQ(print_cpus({Pu{3}}), "CPU 3");
  EXPECT_EQ(print_cpus({Pu{3}, Pu{4}}), "CPUs 3-4");
  EXPECT_EQ(print_nodes({Node{1}}), "node 1");
  EXPECT_EQ(print_nodes({Node{0}, Node{2}}), "nodes 0,2");
}

TEST(IdSet, BehavesAsASet) {
  const CpuSet a = parse("0-3");
  const CpuSet b = parse("2-5");
  EXPECT_EQ(print(a & b), "2-3");
  EXPECT_EQ(print(a | b), "0-5");
  EXPECT_EQ(print(a - b), "0-1");
  EXPECT_TRUE(a.intersects(b));
  EXPECT_FALSE((a - b).intersects(b));
  EXPECT_TRUE(a.contains(parse("1-2")));
  EXPECT_FALSE(a.contains(b));
}

}  // namespace
}  // namespace zf
