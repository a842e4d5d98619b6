#include "text/units.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "text/command_line.hpp"

namespace zf {
namespace {

template <class Parse>
void expect_refused(Parse parse, const char* text) {
  try {
    parse(text);
    ADD_FAILURE() << text << " was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    EXPECT_THAT(error.what(), testing::StartsWith("--flag: "));
    EXPECT_THAT(error.what(), testing::HasSubstr(text));
  }
}

TEST(Values, QuantitiesArePowersOfTen) {
  EXPECT_EQ(parse_quantity("1000", "--flag"), 1000U);
  EXPECT_EQ(parse_quantity("64K", "--flag"), 64'000U);
  EXPECT_EQ(parse_quantity("1.5M", "--flag"), 1'500'000U);
  EXPECT_EQ(parse_quantity("7e9", "--flag"), 7'000'000'000U);
  EXPECT_EQ(parse_quantity("3B", "--flag"), 3'000'000'000U);
  EXPECT_EQ(parse_quantity("3.085938688B", "--flag"), 3'085'938'688U);
  for (const char* wrong :
       {"", "0", "-3", "3X", "B", "1e30", "nan", "inf", "99999T", "3 B", "0.1", "1e", "7e9B", "7", "7.5"}) {
    expect_refused([](const char* text) { parse_quantity(text, "--flag"); }, wrong);
  }
}

TEST(Values, SizesAreBinaryUnlessTheirUnitIsDecimal) {
  for (const char* binary : {"64G", "64GiB", "64 GiB", "64g", "64gib"})
    EXPECT_EQ(parse_size(binary, "--flag"), std::uint64_t{64} << 30) << binary;
  for (const char* decimal : {"64GB", "64 GB", "64e3MB", "0.064TB", "64gb", "64e9", "64000000000"})
    EXPECT_EQ(parse_size(decimal, "--flag"), 64'000'000'000U) << decimal;
  for (const char* wrong : {"", "64", "64.5", "-1G", "64Gbit", "64  GB", "9999TB", "1e"})
    expect_refused([](const char* text) { parse_size(text, "--flag"); }, wrong);
}

TEST(Values, DurationsHaveUnits) {
  EXPECT_EQ(parse_duration("60s", "--flag"), 60 * kSecondNs);
  EXPECT_EQ(parse_duration("60", "--flag"), 60 * kSecondNs);
  EXPECT_EQ(parse_duration("500ms", "--flag"), kSecondNs / 2);
  EXPECT_EQ(parse_duration("2m", "--flag"), 120 * kSecondNs);
  EXPECT_EQ(parse_duration("2min", "--flag"), 120 * kSecondNs);
  for (const char* wrong : {"", "0s", "-1s", "s", "1d", "25h", "1s2"}) {
    expect_refused([](const char* text) { parse_duration(text, "--flag"); }, wrong);
  }
}

TEST(Values, CountsAndIntegersKeepTheirBounds) {
  EXPECT_EQ(parse_counts("1,2,4", "--flag"), (std::vector<int>{1, 2, 4}));
  EXPECT_EQ(parse_integer("7", 0, 7, "--flag"), 7);
  for (const char* wrong : {"", "1,", "0", "1,a", "-1", "99999999999999"}) {
    expect_refused([](const char* text) { parse_counts(text, "--flag"); }, wrong);
  }
  expect_refused([](const char* text) { parse_integer(text, 0, 7, "--flag"); }, "8");
}

TEST(Values, PrintTheDigitsThatMatter) {
  EXPECT_EQ(print_quantity(3'085'938'688), "3.09B");
  EXPECT_EQ(print_quantity(1000), "1000");
  EXPECT_EQ(print_bytes(std::uint64_t{256} << 30), "256 GiB");
  EXPECT_EQ(print_bytes(std::uint64_t{1020} << 20), "1020 MiB") << "not 1.02e+03";
  EXPECT_EQ(print_bytes(12), "12 bytes");
  EXPECT_EQ(print_bytes(1), "1 byte");
  EXPECT_EQ(print_duration(1'520'000'000), "1.52 s");
  EXPECT_EQ(print_duration(12'340'000), "12.3 ms");
  EXPECT_EQ(print_duration(840'000), "840.0 us");
}

TEST(Values, BudgetsAreRoundAndNotShorter) {
  EXPECT_EQ(print_budget(41 * kSecondNs), "45s");
  EXPECT_EQ(print_budget(20 * kSecondNs), "20s");
  EXPECT_EQ(print_budget(121 * kSecondNs), "3m");
  for (const Nanoseconds ns : {kSecondNs, 119 * kSecondNs, 601 * kSecondNs})
    EXPECT_GE(parse_duration(print_budget(ns), "test"), ns);
}

TEST(Values, NumbersAreTheWholeText) {
  EXPECT_EQ(parse_number<int>("-12"), -12);
  EXPECT_EQ(parse_number<unsigned>("ff", 16), 255U);
  for (const char* wrong : {"", "-", "+1", " 1", "1 ", "4,2", "99999999999"}) {
    EXPECT_EQ(parse_number<int>(wrong), std::nullopt) << wrong;
  }
}

TEST(CommandLine, IsQuotedAsAShellWouldNeedIt) {
  EXPECT_EQ(shell_quoted("plan.json"), "plan.json");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("two words"), "'two words'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted("$(rm)"), "'$(rm)'");
  EXPECT_EQ(shell_quoted("größe 1"), "'größe 1'");
}

TEST(CommandLine, WhatCouldDriveATerminalIsEscaped) {
  EXPECT_EQ(shell_quoted("a\x1b[2J it's \\"), R"($'a\033[2J it\047s \134')");
  EXPECT_EQ(shell_quoted("one\nexport LD_PRELOAD=x"), R"($'one\012export LD_PRELOAD=x')");
  EXPECT_EQ(shell_quoted("\u202e"), R"($'\342\200\256')");
  EXPECT_EQ(shell_quoted("\xff"), R"($'\377')");
}

}  // namespace
}  // namespace zf
