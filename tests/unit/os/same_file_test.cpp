#include "os/same_file.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tree.hpp"

namespace zf {
namespace {

TEST(SameFile, IsKnownByWhateverPath) {
  TestFolder folder;
  const auto file = folder.path() / "plan.json";
  const auto link = folder.path() / "link.json";
  const auto other = folder.path() / "other.json";
  std::ofstream(file) << "{}";
  std::ofstream(other) << "{}";
  std::filesystem::create_symlink(file, link);
  EXPECT_TRUE(same_file(file, link));
  EXPECT_TRUE(same_file(file, std::filesystem::relative(file)));
  EXPECT_FALSE(same_file(file, other));
}

TEST(SameFile, AFileThatIsGoneIsKnownByItsAbsolutePath) {
  TestFolder folder;
  const auto gone = folder.path() / "gone.json";
  EXPECT_TRUE(same_file(gone, folder.path() / "." / "gone.json"));
  EXPECT_TRUE(same_file(std::filesystem::current_path() / "gone.json", "gone.json"));
  EXPECT_FALSE(same_file(gone, folder.path() / "other.json"));
  EXPECT_FALSE(same_file(gone, ""));
}

}  // namespace
}  // namespace zf
