#include "base/error.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>

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

TEST(WritingHint, IsWhatTheReasonAsksFor) {
  EXPECT_EQ(writing_hint(ENOSPC), "free some space");
  EXPECT_EQ(writing_hint(EDQUOT, "give another path"), "free some space, or give another path");
  EXPECT_EQ(writing_hint(EFBIG, "give another path"), "raise ulimit -f");
  EXPECT_EQ(writing_hint(EIO), "look in dmesg for what the disk or its server reports");
  EXPECT_EQ(writing_hint(EMFILE, "give another path"), "look at ulimit -n");
  EXPECT_EQ(writing_hint(EROFS), "check the file system that it lies on");
}

TEST(Error, CheckedHandsAGoodAnswerOn) { EXPECT_EQ(checked(7, "seven"), 7); }

}  // namespace
}  // namespace zf
