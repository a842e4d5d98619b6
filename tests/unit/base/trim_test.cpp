#include "base/trim.hpp"

#include <gtest/gtest.h>

namespace zf {
namespace {

TEST(Trim, BlanksInsideStay) {
  EXPECT_EQ(trim(" \ta b\t "), "a b");
  EXPECT_EQ(trim("a\n"), "a\n") << "a newline is a blank only if it is asked for";
  EXPECT_EQ(trim("a\n", " \n"), "a");
  EXPECT_EQ(trim(" \t "), "");
  EXPECT_EQ(trim(""), "");
}

}  // namespace
}  // namespace zf
