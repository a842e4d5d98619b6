#include "measure/training_buffer.hpp"

#include <gtest/gtest.h>

#include <string>

namespace zf {
namespace {

TEST(StreamCopy, CopiesEveryByte) {
  alignas(64) char from[4096];
  alignas(64) char to[4096] = {};
  for (std::size_t i = 0; i < sizeof from; ++i) from[i] = static_cast<char>(i * 7);
  stream_copy(to, from, 4032);
  EXPECT_EQ(std::string(to, 4032), std::string(from, 4032));
  EXPECT_EQ(to[4032], 0);
}

}  // namespace
}  // namespace zf
