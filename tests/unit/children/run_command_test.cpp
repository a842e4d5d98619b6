#include "children/run_command.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include "../os/is_gone.hpp"

namespace zf {
namespace {

struct Ran {
  CommandEnd end;
  std::vector<std::string> lines;
};

Ran run(
    const std::string& script, Nanoseconds limit_ns = 20 * kSecondNs,
    const std::function<bool()>& stop = [] { return false; }) {
  Ran ran;
  ran.end = run_command({"sh", "-c", script}, now_ns() + limit_ns, stop,
                        [&](std::string_view line) { ran.lines.emplace_back(line); });
  return ran;
}

TEST(RunCommand, BothStreamsInLinesAndTheStatus) {
  const Ran ran = run("echo one; echo two >&2; printf 'a\\rb'; exit 3");
  EXPECT_EQ(ran.lines, (std::vector<std::string>{"one", "two", "a", "b"}));
  EXPECT_EQ(ran.end.why, CommandEnd::Why::ended);
  EXPECT_EQ(ran.end.status.code, 3);
}

TEST(RunCommand, ALineIsOneLineHoweverLong) {
  const Ran ran = run("head -c 1000000 /dev/zero | tr '\\0' x; echo tail; echo next");
  ASSERT_EQ(ran.lines.size(), 2U);
  EXPECT_EQ(ran.lines[0], std::string(1 << 16, 'x'));
  EXPECT_EQ(ran.lines[1], "next");
}

TEST(RunCommand, ItsSignalIsTold) { EXPECT_EQ(run("kill -SEGV $$").end.status.signal, SIGSEGV); }

TEST(RunCommand, WhatCannotBeStartedSaysWhy) {
  std::string said;
  const CommandEnd end = run_command(
      {"/no/such/program"}, now_ns() + kSecondNs, [] { return false; },
      [&](std::string_view line) { said = line; });
  EXPECT_EQ(end.status.code, 127);
  EXPECT_EQ(said, "/no/such/program: No such file or directory");
}

TEST(RunCommand, StandardInputIsEmpty) {
  EXPECT_EQ(run("cat; echo end").lines, std::vector<std::string>{"end"});
}

TEST(RunCommand, TheDeadlineEndsItAndItsChildren) {
  const Ran ran = run("sleep 60 & echo $!; wait", 2 * kSecondNs);
  EXPECT_EQ(ran.end.why, CommandEnd::Why::late);
  ASSERT_EQ(ran.lines.size(), 1U);
  EXPECT_TRUE(is_gone(std::stoi(ran.lines[0])));
}

TEST(RunCommand, OneThatIgnoresSigtermIsKilled) {
  const Ran ran = run("trap '' TERM; while :; do sleep 0.1; done", 2 * kSecondNs);
  EXPECT_EQ(ran.end.status.signal, SIGKILL);
}

TEST(RunCommand, StoppedWhenAsked) {
  int asked = 0;
  EXPECT_EQ(run("sleep 60", 20 * kSecondNs, [&] { return ++asked > 1; }).end.why, CommandEnd::Why::stopped);
}

TEST(RunCommand, WhatItLeftRunningIsKilled) {
  const Ran ran = run("sleep 60 & echo $!");
  EXPECT_EQ(ran.end.why, CommandEnd::Why::ended);
  ASSERT_EQ(ran.lines.size(), 1U);
  EXPECT_TRUE(is_gone(std::stoi(ran.lines[0])));
}

TEST(RunCommand, OneThatLeftTheGroupAndWritesForEverHoldsNobodyUp) {
  // The writer of 64 MiB is faster than this reader, so the pipe is full at each read.
  std::size_t lines_of_outsider = 0;
  bool ended = false;
  const CommandEnd end = run_command(
      {"sh", "-c",
       "setsid sh -c 'yes $(printf %08000d 0) | head -c 67108864' & "
       "sleep 0.1; echo the command has ended"},
      now_ns() + 20 * kSecondNs, [] { return false; },
      [&](std::string_view line) {
        ended = ended || line.ends_with("the command has ended");
        if (!ended) return;
        ++lines_of_outsider;
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      });
  EXPECT_EQ(end.why, CommandEnd::Why::ended);
  EXPECT_TRUE(ended);
  EXPECT_LT(lines_of_outsider, 2000U)
      << "of 8,388: 1 MiB, what was in the pipe, and what came before the end";
}

TEST(RunCommand, OneThatClosesItsOutputIsStillWaitedFor) {
  EXPECT_EQ(run("exec >&- 2>&-; sleep 0.3; exit 7").end.status.code, 7);
}

}  // namespace
}  // namespace zf
