#include "os/write_target.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <tuple>

#include "base/file_descriptor.hpp"
#include "tree.hpp"

namespace zf {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uid_t kStranger = 65534;

/// A folder with a file, and links in it. All paths are below it: a mistake must not change this machine.
class Targets : public testing::Test {
 protected:
  Targets() { std::ofstream(at("file")) << "old"; }
  fs::path at(const std::string& name) const { return folder_.path() / name; }
  fs::path link(const std::string& name, const fs::path& text) const {
    fs::create_symlink(text, at(name));
    return at(name);
  }

 private:
  TestFolder folder_;
};

TEST_F(Targets, FileAndWhatIsNotThereAreThemselves) {
  for (const char* name : {"file", "absent", "absent/deeper"}) {
    const WriteTarget target = write_target(at(name));
    EXPECT_THAT(target.refusal, IsEmpty());
    EXPECT_EQ(target.file, at(name));
    EXPECT_FALSE(target.is_stdout);
  }
  EXPECT_EQ(write_target("relative").file, "relative");
}

TEST_F(Targets, LinksAreFollowedToTheirEnd) {
  fs::create_directory(at("deep"));
  link("deep/up", "../file");
  link("folder", at("deep"));
  for (const fs::path& path : {link("one", "file"), link("two", at("one")), at("folder/up")}) {
    EXPECT_THAT(write_target(path).refusal, IsEmpty()) << path;
    EXPECT_TRUE(fs::equivalent(write_target(path).file, at("file"))) << path;
    EXPECT_FALSE(fs::is_symlink(write_target(path).file)) << path;
  }
  EXPECT_EQ(write_target(link("dangling", "absent")).file, at("absent"));
  EXPECT_THAT(write_target(link("loop", "loop")).refusal, HasSubstr("symbolic links"));
}

TEST_F(Targets, OnlyARegularFileIsReplaced) {
  ASSERT_EQ(mkfifo(at("fifo").c_str(), 0600), 0);
  sockaddr_un address{AF_UNIX, {}};
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  at("socket").string().copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(socket);
  fs::create_directory(at("deep"));
  for (const fs::path& path : {at("fifo"), at("socket"), link("to_fifo", "fifo"), link("to_socket", "socket"),
                               fs::path("/dev/null"), link("to_device", "/dev/null")})
    EXPECT_THAT(write_target(path).refusal, HasSubstr("not a regular file")) << path;
  for (const fs::path& path : {at("deep"), at("deep/"), at("deep/."), link("to_folder", "deep"),
                               fs::path("/"), fs::path("/proc/self/cwd")})
    EXPECT_EQ(write_target(path).refusal, "this is a folder") << path;
  for (const fs::path& path : {at("file/"), at("file/deeper"), at(std::string(300, 'x')), fs::path()})
    EXPECT_FALSE(write_target(path).refusal.empty()) << path;
}

TEST_F(Targets, OpenFilesAreNoNamesOfFiles) {
  const FileDescriptor file(open(at("file").c_str(), O_RDWR | O_CLOEXEC));
  const std::string name = "/proc/self/fd/" + std::to_string(file.get());
  for (const fs::path& path : {fs::path(name), link("open", name)}) {
    EXPECT_THAT(write_target(path).refusal, HasSubstr("open file of a process"));
    EXPECT_FALSE(write_target(path).is_stdout);
  }
  const int before = dup(STDOUT_FILENO);
  ASSERT_EQ(dup2(file.get(), STDOUT_FILENO), STDOUT_FILENO);
  const bool own = write_target(link("stdout", "/proc/self/fd/1")).is_stdout;
  const bool by_name = write_target(at("file")).is_stdout;
  dup2(before, STDOUT_FILENO);
  close(before);
  EXPECT_TRUE(own);
  EXPECT_FALSE(by_name) << "its name is that of a file";
}

TEST_F(Targets, LinksOfStrangersInASharedFolderAreNotFollowed) {
  link("link", "file");
  fs::create_directory_symlink(".", at("folder"));
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const fs::path folder = at("link").parent_path();
  for (const char* name : {"link", "folder"}) ASSERT_EQ(lchown(at(name).c_str(), kStranger, kStranger), 0);
  for (const auto& [mode, owner, refused] :
       {std::tuple(01777U, 0U, true), {0775U, 0U, true}, {0755U, 0U, false}, {01777U, kStranger, false}}) {
    ASSERT_EQ(chown(folder.c_str(), owner, owner), 0);
    ASSERT_EQ(chmod(folder.c_str(), mode), 0);
    for (const char* name : {"link", "folder/file"}) {
      const std::string refusal = write_target(at(name)).refusal;
      if (refused)
        EXPECT_THAT(refusal, HasSubstr("is a link that user 65534 made")) << name;
      else
        EXPECT_THAT(refusal, IsEmpty()) << name;
    }
  }
}

}  // namespace
}  // namespace zf
