#include "measure/framework_habits.hpp"

#include <gtest/gtest.h>

namespace zf {
namespace {

using Afterwards = ComputeTeam::Afterwards;

TEST(FrameworkHabits, ThreadsRestOnlyWhileAStepRunsOnThem) {
  EXPECT_EQ(after_update(Framework::torch, Mode::wait), Afterwards::sleep);
  EXPECT_EQ(after_update(Framework::deepspeed_offload, Mode::wait), Afterwards::sleep);
  EXPECT_EQ(after_update(Framework::native, Mode::wait), Afterwards::spin)
      << "our step is in another process";
  EXPECT_EQ(after_update(Framework::superoffload, Mode::wait), Afterwards::spin) << "SuperOffload spins, too";
  EXPECT_EQ(after_update(Framework::unknown, Mode::wait), Afterwards::sleep);
  EXPECT_EQ(after_update(Framework::deepspeed_zenflow, Mode::overlap), Afterwards::spin);
  EXPECT_EQ(after_update(Framework::native, Mode::overlap), Afterwards::spin);
}

TEST(FrameworkHabits, OurOptimizersStateIsShared) {
  EXPECT_EQ(optimizer_memory(Framework::native), WorkingSet::Memory::shared);
  EXPECT_EQ(optimizer_memory(Framework::torch), WorkingSet::Memory::own);
  EXPECT_EQ(optimizer_memory(Framework::unknown), WorkingSet::Memory::own);
}

}  // namespace
}  // namespace zf
