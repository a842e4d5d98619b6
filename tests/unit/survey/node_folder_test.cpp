#include "survey/node_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "../topology/machines.hpp"
#include "base/error.hpp"
#include "base/format.hpp"

namespace zf {
namespace {

using testing::HasSubstr;

class NodeFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/zf-nodes-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  NodeRecord a_record(const std::string& name) {
    NodeRecord record = record_of(topology_of("pack:2 [numa] core:4 pu:2"), name);
    record.at = "2026-11-20T21:00:00Z";
    record.numa[0].bytes_per_s = 1e11;
    record.bytes_per_s = 2e11;
    return record;
  }
  void put(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }

  /// Returns why a file was left out; "" if it was not.
  std::string why(const std::string& file) {
    for (const LeftOutFile& left : read_node_folder(folder_).left_out) {
      if (left.file == file) return left.why;
    }
    return "";
  }

  std::filesystem::path folder_;
};

TEST_F(NodeFolderTest, RecordIsReadAsItWasWritten) {
  NodeRecord record = a_record("gpu001");
  record.gpus = GpuPlaces{"0123456789abcdef", {{"10de:2330", 4, Node{1}}}};
  record.offline = {Pu{3}};
  write_record(record, folder_);
  const NodeFolder read = read_node_folder(folder_);
  ASSERT_EQ(read.records.size(), 1U);
  EXPECT_EQ(read.records[0], record);
  EXPECT_TRUE(read.left_out.empty());
}

TEST_F(NodeFolderTest, IsMadeIfOnlyItIsMissing) {
  write_record(a_record("a"), folder_ / "new");
  EXPECT_EQ(read_node_folder(folder_ / "new").records.size(), 1U);
  EXPECT_THROW(read_node_folder(folder_ / "none"), Error);
}

TEST_F(NodeFolderTest, HostileFilesAreNamedAndLeftOut) {
  write_record(a_record("good"), folder_);
  const std::string text = print_record(a_record("torn"));
  put("torn.json", text.substr(0, text.size() / 2));
  put("empty.json", "");
  put("other.json", text);
  put("large.json", std::string(kMostRecordBytes + 1, ' '));
  put("deep.json", std::string(1000, '['));
  put("twice.json", "{\"schema\": \"zf-node/1\", \"schema\": \"zf-node/1\"}");
  put("plan.json", "{\"schema\": \"zf-plan/2\"}");
  put("-rf.json", text);
  put(".hidden.json", "x");
  put("notes.txt", "x");
  ::mkfifo((folder_ / "fifo.json").c_str(), 0644);
  ::mkdir((folder_ / "dir.json").c_str(), 0755);
  std::filesystem::create_symlink(folder_ / "good.json", folder_ / "link.json");
  const NodeFolder read = read_node_folder(folder_);
  ASSERT_EQ(read.records.size(), 1U);
  EXPECT_EQ(read.records[0].name, "good");
  EXPECT_EQ(read.left_out.size(), 11U);
  EXPECT_THAT(why("torn.json"), HasSubstr("line "));
  EXPECT_EQ(why("other.json"), "is of the node \"torn\"");
  EXPECT_THAT(why("large.json"), HasSubstr("more than 65536 bytes"));
  EXPECT_EQ(why("fifo.json"), "is no regular file");
  EXPECT_EQ(why("dir.json"), "is no regular file");
  EXPECT_EQ(why("link.json"), "is a link");
  EXPECT_EQ(why("-rf.json"), "is not called as a node can be");
}

TEST_F(NodeFolderTest, BrokenFieldIsNamed) {
  NodeRecord record = a_record("a");
  record.bytes_per_s = -1;
  put("a.json", print_record(record));
  EXPECT_THAT(why("a.json"), HasSubstr("bytes_per_s: is -1, not above 0"));
}

TEST_F(NodeFolderTest, FileOfAnotherUserIsLeftOutUnlessTheFolderIsTheirs) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  write_record(a_record("a"), folder_);
  ASSERT_EQ(::chown((folder_ / "a.json").c_str(), 65534, 65534), 0);
  EXPECT_THAT(why("a.json"), HasSubstr("belongs to user 65534"));
  ASSERT_EQ(::chown(folder_.c_str(), 65534, 65534), 0);
  EXPECT_EQ(why("a.json"), "");
}

TEST_F(NodeFolderTest, ForgottenNodeIsGone) {
  write_record(a_record("a"), folder_);
  EXPECT_TRUE(forget_node("a", folder_));
  EXPECT_FALSE(forget_node("a", folder_));
  EXPECT_TRUE(read_node_folder(folder_).records.empty());
}

}  // namespace
}  // namespace zf
