#include "os/atomic_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "os/file.hpp"
#include "refuse_call.hpp"
#include "rename_answers.hpp"
#include "tree.hpp"

namespace {

/// What fsync() of a folder answers; 0: the truth.
int folder_sync_answers = 0;

int fail_with(int error) {
  errno = error;
  return -1;
}

}  // namespace

// It takes the place of the C library's in this program.
extern "C" int fsync(int fd) {
  struct stat status = {};
  const bool is_folder = ::fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
  return is_folder && folder_sync_answers != 0 ? fail_with(folder_sync_answers)
                                               : static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace zf {
namespace {

using testing::HasSubstr;

#ifdef SYS_rename
constexpr unsigned kRename = SYS_rename;
#else
constexpr unsigned kRename = SYS_renameat;  // AArch64 has no other
#endif

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  return names;
}

TEST(AtomicFile, WhatIsWrittenIsRead) {
  TestFolder folder;
  for (const std::size_t size : {0u, 1u, 65535u, 65536u, 65537u, 3'000'000u}) {
    const std::string text(size, 'x');
    write_text_file_atomically(folder.path() / "f", text);
    EXPECT_EQ(read_text_file(folder.path() / "f"), text);
    EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"f"});
  }
}

TEST(AtomicFile, ModeOfANewFileFollowsTheUmask) {
  TestFolder folder;
  for (const mode_t mask : {0022u, 0077u, 0000u}) {
    std::filesystem::remove(folder.path() / "f");
    const mode_t before = umask(mask);
    write_text_file_atomically(folder.path() / "f", "x");
    umask(before);
    struct stat status = {};
    ASSERT_EQ(stat((folder.path() / "f").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777u, 0644u & ~mask);
  }
}

TEST(AtomicFile, RelativePathAndLongNameCanBeWritten) {
  TestFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const std::string name(250, 'n');
  write_text_file_atomically(name, "long");
  EXPECT_EQ(read_text_file(name), "long");
  std::filesystem::current_path(before);
}

TEST(AtomicFile, WhatALinkLeadsToIsReplacedAndNotTheLink) {
  TestFolder folder;
  const auto target = folder.path() / "target";
  const auto link = folder.path() / "link";
  std::filesystem::create_symlink("target", link);
  for (const char* const text : {"new", "newer"}) {
    write_text_file_atomically(link, text);
    EXPECT_EQ(read_text_file(target), text);
    EXPECT_TRUE(std::filesystem::is_symlink(link));
  }
}

/// Uses its own FIFO and never /dev/null: when run as root, a mistake in the code would replace /dev/null for
/// everyone.
TEST(AtomicFile, DevicesAndFoldersAreNeverReplaced) {
  TestFolder folder;
  const auto fifo = folder.path() / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::filesystem::create_symlink(fifo, folder.path() / "link");
  EXPECT_THROW(write_text_file_atomically(fifo, "x"), Error);
  EXPECT_THROW(write_text_file_atomically(folder.path() / "link", "x"), Error);
  EXPECT_THROW(write_text_file_atomically(folder.path(), "x"), Error);
  EXPECT_THROW(write_text_file_atomically(folder.path() / "absent" / "f", "x"), Error);
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path() / "link"));
  EXPECT_EQ(names_in(folder.path()).size(), 2u);
}

/// Makes a write fail half-way, as on a full disk: the limit on the size of a file gives EFBIG.
TEST(AtomicFile, FailedWriteLeavesTheOldFileAndNothingElse) {
  TestFolder folder;
  write_text_file_atomically(folder.path() / "f", "old");
  struct rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit small = {4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  try {
    write_text_file_atomically(folder.path() / "f", std::string(10000, 'x'));
    ADD_FAILURE() << "10000 bytes in a file of at most 4096";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::runtime_error);
    EXPECT_THAT(error.what(), HasSubstr((folder.path() / "f").string()));
    EXPECT_THAT(error.what(), HasSubstr("ulimit -f"));
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(read_text_file(folder.path() / "f"), "old");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"f"});
}

/// Runs this in a child, and returns how that ended. An exception ends it with 1.
template <class Work>
int status_of_child(Work work) {
  const pid_t child = fork();
  EXPECT_GE(child, 0);
  if (child == 0) {
    try {
      work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(1);
    }
    _exit(0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

/// The exit status of a child that may not become another user.
constexpr int kNoOtherUser = 78;

/// Returns what the system refused a child that ended with this status; null if nothing.
const char* refused_to(int status) {
  if (!WIFEXITED(status)) return nullptr;
  if (WEXITSTATUS(status) == kNoFilters) return "seccomp filters are not to be had here";
  if (WEXITSTATUS(status) == kNoOtherUser) return "no process of another user can be started here";
  return nullptr;
}

/// Runs this in a child, which must be killed by a signal. Skips if the system refuses what the child needs.
template <class Work>
void expect_killed(Work work) {
  const int status = status_of_child(work);
  if (const char* refused = refused_to(status)) GTEST_SKIP() << refused;
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
}

/// Runs this in a child, which must end without a failure. Skips if the child does.
template <class Work>
void expect_done(Work work) {
  const int status = status_of_child([&] {
    work();
    if (testing::Test::HasFailure()) _exit(1);
  });
  if (const char* refused = refused_to(status)) GTEST_SKIP() << refused;
  EXPECT_EQ(status, 0);
}

/// Runs a child that writes a file half and is killed.
void be_killed_while_writing(const std::filesystem::path& path, void (*prepare)()) {
  expect_killed([&] {
    prepare();
    const std::string half(100'000, 'x');
    AtomicFile file(path);
    file.write_at(0, std::as_bytes(std::span(half)));
    ::raise(SIGKILL);
  });
}

/// From here on no file of this process can be without a name, as on NFS and Lustre.
void refuse_nameless_files() {
  constexpr auto flags = static_cast<unsigned>(offsetof(struct seccomp_data, args) + 2 * sizeof(__u64));
  const auto nameless = static_cast<unsigned>(O_TMPFILE & ~O_DIRECTORY);
  std::array code{sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                  sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
                  sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, flags),
                  sock_filter BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, nameless, 0, 1),
                  sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
                  sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program = {code.size(), code.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(kNoFilters);
}

struct stat status_of(const std::filesystem::path& path) {
  struct stat status = {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status;
}

TEST(AtomicFile, AFileThatIsWrittenAgainKeepsItsMode) {
  TestFolder folder;
  const auto file = folder.path() / "f";
  write_text_file_atomically(file, "old");
  for (const mode_t mask : {0022u, 0077u}) {
    for (const mode_t mode : {0600u, 0640u, 0644u, 0664u, 0400u, 0444u}) {
      ASSERT_EQ(chmod(file.c_str(), mode), 0);
      const mode_t before = umask(mask);
      write_text_file_atomically(file, "new");
      umask(before);
      EXPECT_EQ(status_of(file).st_mode & 07777u, mode) << "umask " << mask;
    }
  }
}

TEST(AtomicFile, TheTemporaryFileIsNeverMoreOpenThanTheFile) {
  TestFolder folder;
  const auto file = folder.path() / "f";
  write_text_file_atomically(file, "old");
  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  expect_done([&] {
    refuse_nameless_files();
    umask(0);
    AtomicFile closed(file);
    EXPECT_EQ(status_of(folder.path() / ".f.tmp").st_mode & 0777u, 0600u);
    closed.commit();
  });
  if (IsSkipped()) return;
  EXPECT_EQ(status_of(file).st_mode & 0777u, 0600u);
  expect_done([&] {
    umask(0);
    refuse_call(SYS_linkat, EPERM);
    refuse_call(SYS_fchmod, EPERM);
    write_text_file_atomically(file, "where modes cannot be set");
  });
  EXPECT_EQ(status_of(file).st_mode & 0777u, 0600u);
  EXPECT_EQ(read_text_file(file), "where modes cannot be set");
}

constexpr uid_t kNobody = 65534;

TEST(AtomicFile, RootKeepsTheOwnerAndTheGroup) {
  TestFolder folder;
  const auto file = folder.path() / "f";
  write_text_file_atomically(file, "old");
  if (chown(file.c_str(), kNobody, 12345) != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(chmod(file.c_str(), 0640), 0);
  write_text_file_atomically(file, "new");
  const auto now = status_of(file);
  EXPECT_EQ(now.st_uid, kNobody);
  EXPECT_EQ(now.st_gid, 12345U);
  EXPECT_EQ(now.st_mode & 0777u, 0640u);
}

TEST(AtomicFile, AGroupThatTheFileWasNotForGetsWhatOthersGet) {
  TestFolder folder;
  const auto file = folder.path() / "f";
  write_text_file_atomically(file, "old");
  if (chown(file.c_str(), kNobody, 12345) != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  for (const auto& [mode, expected] : {std::pair(0640u, 0600u), std::pair(0664u, 0644u)}) {
    ASSERT_EQ(chown(file.c_str(), kNobody, 12345), 0);
    ASSERT_EQ(chmod(file.c_str(), mode), 0);
    expect_done([&] {
      if (setresgid(kNobody, kNobody, kNobody) != 0 || setresuid(kNobody, kNobody, kNobody) != 0)
        _exit(kNoFilters);
      write_text_file_atomically(file, "new");
    });
    if (IsSkipped()) return;
    EXPECT_EQ(status_of(file).st_gid, kNobody);
    EXPECT_EQ(status_of(file).st_mode & 0777u, expected);
  }
}

TEST(AtomicFile, AnotherUsersFileInASharedFolderPassesOnNothing) {
  TestFolder folder;
  const auto file = folder.path() / "f";
  for (const mode_t shared : {01777U, 0775U}) {
    ASSERT_EQ(chmod(folder.path().c_str(), shared), 0);
    std::ofstream(file) << "made by a stranger";
    ASSERT_EQ(chmod(file.c_str(), 0666), 0);
    if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
    ASSERT_EQ(chown(file.c_str(), kNobody, kNobody), 0);
    const mode_t before = umask(0077);
    write_text_file_atomically(file, "new");
    umask(before);
    EXPECT_EQ(status_of(file).st_uid, geteuid());
    EXPECT_EQ(status_of(file).st_gid, getegid());
    EXPECT_EQ(status_of(file).st_mode & 0777U, 0600U);
    EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"f"});
  }
}

TEST(AtomicFile, AFileOfOursInASharedFolderKeepsItsMode) {
  TestFolder folder;
  const auto file = folder.path() / "f";
  ASSERT_EQ(chmod(folder.path().c_str(), 01777), 0);
  write_text_file_atomically(file, "old");
  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  write_text_file_atomically(file, "new");
  EXPECT_EQ(status_of(file).st_mode & 0777U, 0600U);
}

TEST(AtomicFile, ARenameThatIsDoneThoughItFailedIsDone) {
  for (const auto prepare : {+[] {}, +[] { refuse_nameless_files(); }}) {
    TestFolder folder;
    const auto state = folder.path() / "state";
    write_text_file_atomically(state, "old");
    expect_done([&] {
      prepare();
      rename_answers = ENOENT;
      write_text_file_atomically(state, "new");
    });
    if (IsSkipped()) return;
    EXPECT_EQ(read_text_file(state), "new");
    EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"state"});
  }
}

TEST(AtomicFile, AFolderThatCannotBeSyncedIsToldFromAFileThatCannotBeWritten) {
  TestFolder folder;
  const auto state = folder.path() / "state";
  write_text_file_atomically(state, "old");
  expect_done([&] {
    folder_sync_answers = EIO;
    try {
      write_text_file_atomically(state, "new");
      ADD_FAILURE() << "the folder cannot be synced";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("is written, but its folder cannot be synced"));
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("unchanged")));
    }
  });
  EXPECT_EQ(read_text_file(state), "new");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"state"});
}

TEST(AtomicFile, KilledWriterLeavesNothing) {
  TestFolder folder;
  be_killed_while_writing(folder.path() / "state", [] {});
  EXPECT_EQ(names_in(folder.path()).size(), 0u);
}

/// Runs a child that is killed when it renames the file that it has written.
void be_killed_before_the_rename(const std::filesystem::path& path, void (*prepare)()) {
  expect_killed([&] {
    prepare();
    std::array code{sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                    sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat, 2, 0),
                    sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 1, 0),
                    sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kRename, 0, 1),
                    sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                    sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program = {code.size(), code.data()};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
      _exit(kNoFilters);
    write_text_file_atomically(path, "new");
  });
}

TEST(AtomicFile, WritersKilledBeforeTheRenameLeaveOneFileUntilTheNext) {
  TestFolder folder;
  write_text_file_atomically(folder.path() / "state", "old");
  for (int i = 0; i < 3; ++i) be_killed_before_the_rename(folder.path() / "state", [] {});
  if (IsSkipped()) return;
  EXPECT_EQ(read_text_file(folder.path() / "state"), "old");
  EXPECT_THAT(names_in(folder.path()), testing::UnorderedElementsAre("state", ".state.tmp"));
  write_text_file_atomically(folder.path() / "state", "new");
  EXPECT_EQ(read_text_file(folder.path() / "state"), "new");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"state"});
}

TEST(AtomicFile, WhatAKilledWriterOfAReadOnlyFileLeavesIsRemovedToo) {
  TestFolder folder;
  const auto state = folder.path() / "state";
  write_text_file_atomically(state, "old");
  ASSERT_EQ(chmod(state.c_str(), 0444), 0);
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(state.c_str(), kNobody, kNobody), 0);
  }
  const auto as_nobody = [] {
    if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0) _exit(kNoOtherUser);
  };
  be_killed_before_the_rename(state, as_nobody);
  if (IsSkipped()) return;
  EXPECT_THAT(names_in(folder.path()), testing::UnorderedElementsAre("state", ".state.tmp"));
  expect_done([&] {
    as_nobody();
    write_text_file_atomically(state, "new");
  });
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"state"});
  EXPECT_EQ(status_of(state).st_mode & 0777u, 0444u);
}

TEST(AtomicFile, WhereEveryFileHasANameKilledWritersLeaveOne) {
  TestFolder folder;
  for (int i = 0; i < 3; ++i) be_killed_while_writing(folder.path() / "state", refuse_nameless_files);
  if (IsSkipped()) return;
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{".state.tmp"});

  EXPECT_EQ(status_of_child([&] {
              refuse_nameless_files();
              AtomicFile other(folder.path() / "state");  // two writers at once do not disturb each other
              write_text_file_atomically(folder.path() / "state", "new");
            }),
            0);
  EXPECT_EQ(read_text_file(folder.path() / "state"), "new");
}

/// From here on no file of this process can be locked, as on Lustre without the mount option flock.
void refuse_locks() { refuse_call(SYS_flock, ENOSYS); }

void refuse_nameless_files_and_locks() {
  refuse_nameless_files();
  refuse_locks();
}

/// Checks that killed writers left one file beside `state`, and that the next writer removes it.
void expect_one_left_until_the_next(const std::filesystem::path& state, void (*prepare)()) {
  EXPECT_THAT(names_in(state.parent_path()), testing::UnorderedElementsAre("state", ".state.tmp"));
  EXPECT_EQ(read_text_file(state), "old");
  EXPECT_EQ(status_of_child([&] {
              prepare();
              write_text_file_atomically(state, "new");
            }),
            0);
  EXPECT_EQ(read_text_file(state), "new");
  EXPECT_EQ(names_in(state.parent_path()), std::vector<std::string>{"state"});
}

TEST(AtomicFile, WithoutLocksKilledWritersLeaveOneFileUntilTheNext) {
  TestFolder folder;
  const auto state = folder.path() / "state";
  write_text_file_atomically(state, "old");
  for (int i = 0; i < 2; ++i) be_killed_while_writing(state, refuse_nameless_files_and_locks);
  if (IsSkipped()) return;
  expect_one_left_until_the_next(state, refuse_nameless_files_and_locks);
}

TEST(AtomicFile, WithoutLocksWritersKilledBeforeTheRenameLeaveOneFileUntilTheNext) {
  TestFolder folder;
  const auto state = folder.path() / "state";
  be_killed_while_writing(state, refuse_locks);
  if (IsSkipped()) return;
  EXPECT_EQ(names_in(folder.path()).size(), 0U) << "it had no name yet";
  write_text_file_atomically(state, "old");
  be_killed_before_the_rename(state, refuse_locks);
  expect_one_left_until_the_next(state, refuse_locks);
}

TEST(AtomicFile, WithoutLocksTwoWritersAtOnceDoNotDisturbEachOther) {
  TestFolder folder;
  const auto state = folder.path() / "state";
  expect_done([&] {
    refuse_nameless_files_and_locks();
    AtomicFile first(state);
    {
      const std::jthread writing([&](const std::stop_token& over) {
        const std::string bytes(4096, 'x');
        for (std::uint64_t at = 0; !over.stop_requested(); at += bytes.size()) {
          first.write_at(at, std::as_bytes(std::span(bytes)));
          ::usleep(1000);
        }
      });
      write_text_file_atomically(state, "second");
      EXPECT_EQ(read_text_file(state), "second");
    }
    first.commit();
  });
  if (IsSkipped()) return;
  EXPECT_THAT(read_text_file(state), testing::StartsWith("xxxx"));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"state"});
}

TEST(AtomicFile, WithoutLocksAWriterThatWasTakenForAbandonedFailsAndDisturbsNobody) {
  TestFolder folder;
  const auto state = folder.path() / "state";
  expect_done([&] {
    refuse_nameless_files_and_locks();
    std::optional<AtomicFile> silent(std::in_place, state);
    AtomicFile second(state);
    try {
      silent->commit();
      ADD_FAILURE() << "half a file of another writer";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("another process has begun to write it"));
    }
    silent.reset();
    const std::string text = "second";
    second.write_at(0, std::as_bytes(std::span(text)));
    second.commit();
  });
  if (IsSkipped()) return;
  EXPECT_EQ(read_text_file(state), "second");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"state"});
}

TEST(AtomicFile, WhereLinksAreRefusedItIsWrittenAllTheSame) {
  TestFolder folder;
  const std::string text(3'000'000, 'x');
  write_text_file_atomically(folder.path() / "state", "old");
  expect_done([&] {
    refuse_call(SYS_linkat, EPERM);
    write_text_file_atomically(folder.path() / "state", text);
  });
  if (IsSkipped()) return;
  EXPECT_EQ(read_text_file(folder.path() / "state"), text);
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"state"});
}

TEST(AtomicFile, WhereLinksAreRefusedAFailedCopyLeavesNothing) {
  TestFolder folder;
  const auto state = folder.path() / "state";
  write_text_file_atomically(state, "old");
  expect_done([&] {
    refuse_call(SYS_linkat, EPERM);
    const std::string text(100'000, 'x');
    AtomicFile file(state);
    file.write_at(0, std::as_bytes(std::span(text)));
    const struct rlimit small = {50'000, 50'000};
    setrlimit(RLIMIT_FSIZE, &small);
    for (int i = 0; i < 2; ++i) EXPECT_THROW(file.commit(), Error) << "half a file is never published";
  });
  if (IsSkipped()) return;
  EXPECT_EQ(read_text_file(state), "old");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"state"});
}

TEST(AtomicFile, AFileThatItsWriterMayNotReadIsWritten) {
  TestFolder folder;
  const auto state = folder.path() / "state";
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  expect_done([&] {
    umask(0777);
    if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0) _exit(kNoOtherUser);
    refuse_nameless_files();
    write_text_file_atomically(state, "new");
  });
  if (IsSkipped()) return;
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"state"});
  EXPECT_EQ(std::filesystem::file_size(state), 3U);
}

TEST(AtomicFile, AFailedLastRenameLeavesNothing) {
  for (const auto prepare : {+[] {}, +[] { refuse_nameless_files(); }}) {
    TestFolder folder;
    const auto state = folder.path() / "state";
    expect_done([&] {
      prepare();
      AtomicFile file(state);
      std::filesystem::create_directory(state);
      EXPECT_THROW(file.commit(), Error);
    });
    if (IsSkipped()) return;
    EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"state"});
  }
}

TEST(AtomicFile, ATemporaryFileThatAnotherProcessRemovedIsSaid) {
  TestFolder folder;
  const auto state = folder.path() / "state";
  expect_done([&] {
    refuse_nameless_files();
    AtomicFile file(state);
    std::filesystem::remove(folder.path() / ".state.tmp");
    try {
      file.commit();
      ADD_FAILURE() << "the file is gone";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("another process has removed .state.tmp"));
    }
  });
  if (IsSkipped()) return;
  EXPECT_EQ(names_in(folder.path()).size(), 0U);
}

/// Fails to write on a file system of one page, in a mount namespace of a child.
TEST(AtomicFile, FullDiskLeavesTheOldFileAndNothingElse) {
  TestFolder folder;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string mountpoint = folder.path().string();
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", mountpoint.c_str(), "tmpfs", 0, "size=8k") != 0) {
      _exit(77);
    }
    bool failed = false;
    try {
      write_text_file_atomically(folder.path() / "f", "old");
      write_text_file_atomically(folder.path() / "f", std::string(20000, 'x'));
    } catch (const Error&) {
      failed = true;
    }
    _exit(failed && read_text_file(folder.path() / "f") == "old" && names_in(folder.path()).size() == 1 ? 0
                                                                                                        : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no tmpfs can be mounted here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace zf
