#include "compare/difference.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace zf {
namespace {

TEST(Difference, SaysWithItsIntervalWhatIsFasterAndWhatIsSlower) {
  EXPECT_EQ(difference_in_words({0.012, -0.003, 0.027}),
            "1.2 % slower (95 % confidence: 0.3 % faster to 2.7 % slower)");
  EXPECT_EQ(difference_in_words({-0.05, -0.08, -0.02}),
            "5.0 % faster (95 % confidence: 8.0 % faster to 2.0 % faster)");
}

TEST(Difference, SaysThatAnIntervalIsUnknown) {
  const Difference unknown{0.012, -1, std::numeric_limits<double>::infinity()};
  EXPECT_FALSE(unknown.is_known());
  EXPECT_EQ(difference_in_words(unknown), "1.2 % slower (95 % confidence: unknown)");
}

}  // namespace
}  // namespace zf
