// Tests which plan of a folder a node takes while others replace the plans there.
#include "planning/class_plan.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "../os/tree.hpp"
#include "paths.hpp"
#include "plan/plan_json.hpp"

namespace zf {
namespace {

TEST(ClassPlanFile, AFileThatComesAndGoesMeanwhileIsTakenOrTheNextOne) {
  const TestFolder folder;
  const std::filesystem::path example =
      std::filesystem::path(kSourceDir) / "configs" / "examples" / "one-core.json";
  const Plan plan = load_plan(example);
  const std::string& name = plan.machine.fingerprint;
  const GpuPlaces places{"0123456789abcdef", {}};
  const std::filesystem::path here = folder.path() / (name + "+" + places.fingerprint + ".json");
  const std::filesystem::path of_class = folder.path() / (name + ".json");
  std::filesystem::copy_file(example, of_class);
  std::atomic<bool> stop = false;
  std::thread others([&] {
    while (!stop) {
      std::filesystem::create_hard_link(of_class, here);
      std::filesystem::remove(here);
    }
  });
  int taken = 0;
  int errors = 0;
  for (int round = 0; round < 2000; ++round) {
    try {
      taken += find_class_plan(plan.machine, places, folder.path(), {}).has_value() ? 1 : 0;
    } catch (const Error&) {
      ++errors;
    }
  }
  stop = true;
  others.join();
  EXPECT_EQ(taken, 2000);
  EXPECT_EQ(errors, 0);
}

}  // namespace
}  // namespace zf
