#include "base/error.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace zf {
namespace {

TEST(Error, IsOneLineThatEndsWithWhatToDo) {
  const Error error(Exit::usage, "--allowed: \"a\nb\" is not a list", "write 0-3");
  EXPECT_STREQ(error.what(), "--allowed: \"a b\" is not a list; write 0-3");
  EXPECT_EQ(error.exit(), Exit::usage);
}

TEST(Error, CheckedNamesTheCallAndTheReason) {
  try {
    checked(::open("/nonexistent/file", O_RDONLY), "/nonexistent/file", "check the path");
    FAIL() << "a missing file was opened";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "/nonexistent/file: No such file or directory; check the path");
    EXPECT_EQ(error.exit(), Exit::runtime_error);
  }
}

TEST(Error, CheckedHandsAGoodAnswerOn) { EXPECT_EQ(checked(7, "seven"), 7); }

}  // namespace
}  // namespace zf
