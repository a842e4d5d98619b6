#include "os/file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "tree.hpp"

namespace zf {
namespace {

using testing::HasSubstr;

void expect_refused(const std::filesystem::path& path) {
  try {
    read_text_file(path);
    FAIL() << path;
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    EXPECT_THAT(error.what(), HasSubstr(path.string()));
  }
}

TEST(File, FifoIsRefusedWithoutWaitingForAWriter) {
  TestFolder folder;
  ASSERT_EQ(mkfifo((folder.path() / "fifo").c_str(), 0600), 0);
  const auto start = now_ns();
  expect_refused(folder.path() / "fifo");
  EXPECT_LT(now_ns() - start, 10 * kSecondNs) << "it would wait for ever";
}

TEST(File, WhatIsNoFileIsRefused) {
  TestFolder folder;
  expect_refused(folder.path());
  expect_refused(folder.path() / "absent");
  expect_refused("/dev/null");
  expect_refused("/dev/zero");
}

TEST(File, HugeFileIsRefused) {
  TestFolder folder;
  const auto path = folder.path() / "huge";
  std::ofstream(path) << "x";
  std::filesystem::resize_file(path, kMaxTextFileBytes + 1);
  expect_refused(path);
  std::filesystem::resize_file(path, kMaxTextFileBytes);
  EXPECT_EQ(read_text_file(path).size(), kMaxTextFileBytes);
}

TEST(File, ItsOwnerIsThisUserOrWhoeverOwnsWhatThisUserCreatesThere) {
  TestFolder folder;
  const auto path = folder.path() / "file";
  EXPECT_TRUE(belongs_to_this_user(path, geteuid()));
  EXPECT_FALSE(belongs_to_this_user(path, geteuid() + 1));
  EXPECT_FALSE(belongs_to_this_user(folder.path() / "absent" / "file", geteuid() + 1));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  if (geteuid() != 0) return;
  // As NFS does with what root creates.
  constexpr uid_t kNfsOwner = 65534;
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  setfsuid(kNfsOwner);
  EXPECT_TRUE(belongs_to_this_user(path, kNfsOwner));
  setfsuid(0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace zf
