#include "plan/reserved_perc.hpp"

#include <gtest/gtest.h>

namespace zf {
namespace {

TEST(ReservedPerc, DeepSpeedReadsBackWhatWasMeant) {
  for (int all = 1; all <= 1024; ++all) {
    for (int training = 1; training <= all; ++training) {
      ASSERT_EQ(pus_deepspeed_reserves(reserved_perc(training, all), all), training)
          << training << " of " << all;
    }
  }
}

// Shows why half a PU is subtracted. If this test ever fails, the plain fraction is good enough.
TEST(ReservedPerc, ThePlainFractionIsWrongInHundredsOfCases) {
  int wrong = 0;
  for (int all = 1; all <= 512; ++all) {
    for (int training = 1; training <= all; ++training) {
      wrong += pus_deepspeed_reserves(static_cast<double>(training) / all, all) != training;
    }
  }
  EXPECT_GT(wrong, 100);
}

}  // namespace
}  // namespace zf
