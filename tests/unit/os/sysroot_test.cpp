#include "os/sysroot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "tree.hpp"

namespace zf {
namespace {

TEST(SysRoot, AnotherMachineIsAFolder) {
  Tree tree;
  tree.file("/proc/version", "Linux").file("/sys/b/x", "1").file("/sys/a", "");
  const SysRoot sysroot = tree.sysroot();
  EXPECT_FALSE(sysroot.is_this_machine());
  EXPECT_EQ(sysroot.read("/proc/version"), "Linux");
  EXPECT_EQ(sysroot.read("/sys/a"), "");
  EXPECT_EQ(sysroot.read("/proc/absent"), std::nullopt);
  EXPECT_EQ(sysroot.read("/sys"), std::nullopt);
  EXPECT_THAT(sysroot.list("/sys"), testing::ElementsAre("a", "b"));
  EXPECT_THAT(sysroot.list("/absent"), testing::IsEmpty());
  EXPECT_TRUE(sysroot.exists("/sys/a"));
  EXPECT_TRUE(sysroot.exists("/sys/b"));
  EXPECT_FALSE(sysroot.exists("/proc/absent"));
}

TEST(SysRoot, ThisMachineUnderEveryName) {
  EXPECT_TRUE(SysRoot().is_this_machine());
  EXPECT_TRUE(SysRoot("/").is_this_machine());
  EXPECT_TRUE(SysRoot("//").is_this_machine());
  EXPECT_TRUE(SysRoot("/proc/..").is_this_machine());
  EXPECT_THAT(SysRoot().read("/proc/self/status"),
              testing::Optional(testing::HasSubstr("Cpus_allowed_list")));
}

TEST(SysRoot, NoFolderIsRefused) {
  EXPECT_THROW(SysRoot("/no/such/folder"), Error);
  EXPECT_THROW(SysRoot("/proc/version"), Error);
}

TEST(SysRoot, FifoInAForeignTreeDoesNotStopUs) {
  Tree tree;
  tree.file("/proc/x", "");
  ASSERT_EQ(mkfifo((tree.path() / "proc/fifo").c_str(), 0600), 0);
  const auto start = now_ns();
  tree.sysroot().read("/proc/fifo");
  EXPECT_LT(now_ns() - start, 10 * kSecondNs) << "it would wait for ever";
}

}  // namespace
}  // namespace zf
