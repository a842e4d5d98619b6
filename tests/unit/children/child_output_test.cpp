#include "children/child_output.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

#include "base/clock.hpp"

namespace zf {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using End = ChildOutput::End;

TEST(ChildOutput, LongTextArrivesWhole) {
  const std::string text(3'000'000, 'x');
  const auto output = output_of_child([&] { return text; }, seconds(30));
  EXPECT_EQ(output.end, End::done);
  EXPECT_EQ(output.text, text);
}

TEST(ChildOutput, HungChildIsGivenUpAtTheDeadline) {
  const auto start = now_ns();
  const auto output = output_of_child(
      [] {
        std::signal(SIGTERM, SIG_IGN);
        ::sleep(60);
        return std::string("late");
      },
      milliseconds(100));
  EXPECT_EQ(output.end, End::late);
  EXPECT_TRUE(output.text.empty());
  EXPECT_LT(now_ns() - start, 20 * kSecondNs);
}

TEST(ChildOutput, CrashIsNoticed) {
  EXPECT_EQ(output_of_child([]() -> std::string { std::abort(); }, seconds(30)).end, End::died);
  EXPECT_EQ(output_of_child([]() -> std::string { throw std::runtime_error("x"); }, seconds(30)).end,
            End::died);
}

TEST(ChildOutput, ChildHoldsNoFileOfOursAndTouchesNoVariable) {
  // A reader of our output must not have to wait for a hung child.
  const auto output = output_of_child(
      [] {
        ::setenv("ZF_TEST_CHILD", "1", 1);
        std::string open;
        for (int fd = 0; fd < 1024; ++fd) {
          std::error_code absent;
          const auto file =
              std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), absent).string();
          if (!absent) open += file.substr(0, file.find(':')) + " ";
        }
        return open;
      },
      seconds(30));
  EXPECT_EQ(output.end, End::done);
  EXPECT_EQ(output.text, "/dev/null /dev/null /dev/null pipe ");
  EXPECT_EQ(::getenv("ZF_TEST_CHILD"), nullptr);
}

}  // namespace
}  // namespace zf
