#include "os/publish.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "base/error.hpp"
#include "os/atomic_file.hpp"
#include "os/file.hpp"
#include "rename_answers.hpp"
#include "tree.hpp"

namespace zf {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class Publish : public testing::Test {
 protected:
  void expect_refused(const std::string& why) {
    try {
      publish_text_file(target, "plan");
      FAIL() << "published";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::runtime_error);
      EXPECT_THAT(error.what(), HasSubstr(run.string()));
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  }
  std::size_t files_in_folder() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(run), fs::directory_iterator()));
  }

  TestFolder folder;
  const fs::path run = folder.path() / "run";
  const fs::path target = run / "4711.json";
};

TEST_F(Publish, EveryoneMayReadWhateverTheUmask) {
  const mode_t before = umask(0077);
  publish_text_file(target, "plan");
  umask(before);
  EXPECT_EQ(read_text_file(target), "plan");
  EXPECT_EQ(static_cast<int>(fs::status(run).permissions()), 0755);
  EXPECT_EQ(static_cast<int>(fs::status(target).permissions()), 0644);
}

TEST_F(Publish, WhatIsThereIsReplacedAndWhatAKilledOneLeftIsGone) {
  publish_text_file(target, "old");
  write_text_file_atomically(run / ".4711.json.tmp", "half of");
  publish_text_file(target, "new");
  EXPECT_EQ(read_text_file(target), "new");
  EXPECT_EQ(files_in_folder(), 1u);
}

TEST_F(Publish, ARenameThatIsDoneThoughItFailedIsDone) {
  publish_text_file(target, "old");
  rename_answers = ENOENT;
  EXPECT_NO_THROW(publish_text_file(target, "new"));
  rename_answers = 0;
  EXPECT_EQ(read_text_file(target), "new");
  EXPECT_EQ(files_in_folder(), 1u);
}

TEST_F(Publish, LinkUnderItsNameIsReplacedNotFollowed) {
  write_text_file_atomically(folder.path() / "precious", "precious");
  fs::create_directory(run);
  for (const char* name : {"4711.json", ".4711.json.tmp"})
    fs::create_symlink(folder.path() / "precious", run / name);
  publish_text_file(target, "plan");
  EXPECT_EQ(read_text_file(folder.path() / "precious"), "precious");
  EXPECT_EQ(read_text_file(target), "plan");
  EXPECT_FALSE(fs::is_symlink(target));
  EXPECT_EQ(files_in_folder(), 1u);
}

TEST_F(Publish, FolderThatIsALinkIsRefused) {
  fs::create_directory(folder.path() / "elsewhere");
  fs::create_directory_symlink(folder.path() / "elsewhere", run);
  expect_refused("link");
  EXPECT_TRUE(fs::is_empty(folder.path() / "elsewhere"));
}

TEST_F(Publish, FolderThatOthersMayWriteInIsRefused) {
  fs::create_directory(run);
  for (const auto writers : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(run, fs::perms::owner_all | writers);
    expect_refused("others may write in it; chmod 755");
    EXPECT_TRUE(fs::is_empty(run));
  }
  fs::permissions(run, fs::perms::all | fs::perms::sticky_bit);  // as /tmp, which must stay so
  expect_refused("others may write in it; name a file in a folder in which only you may write");
}

TEST_F(Publish, FolderThatUsersCannotReadIsRefused) {
  fs::create_directory(run);
  for (const auto mode : {fs::perms::owner_all, fs::perms::owner_all | fs::perms::others_exec}) {
    fs::permissions(run, mode);
    expect_refused("other users cannot read what is published there");
    EXPECT_TRUE(fs::is_empty(run));
  }
  publish_text_file(target, "for root alone", Readers::owner);
  EXPECT_EQ(read_text_file(target), "for root alone");
}

TEST_F(Publish, FolderOfAnotherUserIsRefused) {
  fs::create_directory(run);
  if (chown(run.c_str(), 65534, 65534) != 0) GTEST_SKIP() << "no folder can be given to another user here";
  expect_refused("user 65534");
}

TEST_F(Publish, MissingParentIsNamed) {
  fs::remove(folder.path());
  expect_refused("No such file");
}

TEST_F(Publish, FailedWriteLeavesTheOldFileAndNothingElse) {
  publish_text_file(target, "old");
  struct rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit small = {4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(publish_text_file(target, std::string(10000, 'x')), Error);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(read_text_file(target), "old");
  EXPECT_EQ(files_in_folder(), 1u);
}

TEST_F(Publish, WhatWasPublishedIsReadUnlessSomebodyElseHadAHandInIt) {
  EXPECT_EQ(read_published_file(target), std::nullopt) << "no folder";
  publish_text_file(target, "plan");
  EXPECT_EQ(read_published_file(target), "plan");
  EXPECT_EQ(read_published_file(run / "another.json"), std::nullopt);
  fs::create_symlink(target, run / "link");
  EXPECT_THROW(read_published_file(run / "link"), Error);
  ASSERT_EQ(mkfifo((run / "fifo").c_str(), 0600), 0);
  EXPECT_THROW(read_published_file(run / "fifo"), Error);
  fs::permissions(run, fs::perms::owner_all | fs::perms::others_write);
  EXPECT_THROW(read_published_file(target), Error);
}

}  // namespace
}  // namespace zf
