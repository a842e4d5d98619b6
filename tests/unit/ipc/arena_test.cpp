#include "ipc/arena.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/error.hpp"
#include "base/format.hpp"

namespace zf {
namespace {

using testing::HasSubstr;

FileDescriptor duplicate(const Arena& arena) { return FileDescriptor(fcntl(arena.fd(), F_DUPFD_CLOEXEC, 0)); }

std::uint64_t allocated_bytes(const Arena& arena) {
  struct stat status = {};
  EXPECT_EQ(fstat(arena.fd(), &status), 0);
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

std::string refusal_of_attaching(FileDescriptor fd) {
  try {
    Arena::attach(std::move(fd));
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Arena, CannotBeShrunkGrownOrUnsealed) {
  const Arena arena = Arena::create(arena_layout({{.elements = 5000}}));
  EXPECT_EQ(ftruncate(arena.fd(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(arena.fd(), static_cast<off_t>(arena.bytes() + kPageBytes)), -1);
  EXPECT_EQ(fcntl(arena.fd(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_NE(fcntl(arena.fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(Arena, HasNoNameInAnyFolder) {
  const Arena arena = Arena::create(arena_layout({{.elements = 5000}}));
  struct stat status = {};
  ASSERT_EQ(fstat(arena.fd(), &status), 0);
  EXPECT_EQ(status.st_nlink, 0U);
}

TEST(Arena, TheOtherSideSeesWhatWasWritten) {
  const ArenaLayout layout =
      arena_layout({{.elements = 3}, {.elements = 5000, .copy_type = ElementType::bf16}});
  const Arena trainer = Arena::create(layout);
  const Arena worker = Arena::attach(duplicate(trainer));
  EXPECT_EQ(worker.control().group_count, 2U);
  EXPECT_EQ(worker.group(1).elements, 5000U);
  EXPECT_EQ(worker.group(1).copy_type, ElementType::bf16);
  const std::uint64_t at = trainer.group(1).place(ArrayKind::params).offset;
  EXPECT_EQ(worker.at<float>(at)[4999], 0.0F);
  trainer.at<float>(at)[4999] = 7;
  EXPECT_EQ(worker.at<float>(at)[4999], 7.0F);
}

TEST(Arena, AGradientBufferHasItsOwnMomentsIfThereAreTwoSets) {
  const Arena arena = Arena::create(arena_layout({{.elements = 9}, {.elements = 9, .moment_sets = 2}}));
  const GroupBlock& one = arena.group(0);
  const GroupBlock& two = arena.group(1);
  for (const GroupBlock* const group : {&one, &two}) {
    EXPECT_EQ(group->moment1(0), group->place(ArrayKind::moment1));
    EXPECT_EQ(group->moment2(0), group->place(ArrayKind::moment2));
  }
  EXPECT_EQ(one.moment1(1), one.moment1(0));
  EXPECT_EQ(one.moment2(1), one.moment2(0));
  EXPECT_EQ(two.moment1(1), two.place(ArrayKind::moment1_set1));
  EXPECT_EQ(two.moment2(1), two.place(ArrayKind::moment2_set1));
}

TEST(Arena, ReservingGivesPagesAndKeepsContents) {
  const Arena arena = Arena::create(arena_layout({{.elements = 1'000'000}}));
  const ArrayPlace array = arena.group(0).place(ArrayKind::params);
  EXPECT_LT(allocated_bytes(arena), 64 * kPageBytes);
  arena.at<float>(array.offset)[10] = 3;
  arena.reserve(array.offset, array.bytes);
  EXPECT_GE(allocated_bytes(arena), array.bytes);
  EXPECT_EQ(arena.at<float>(array.offset)[10], 3.0F);
  EXPECT_EQ(arena.at<float>(array.offset)[11], 0.0F);
}

TEST(Arena, TooLargeIsAnErrorThatSaysHowMuch) {
  try {
    Arena::create(arena_layout({{.elements = kMaxElements}}));
    FAIL() << "an arena of 2^48 elements";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::runtime_error);
    EXPECT_THAT(error.what(), HasSubstr("an arena of 5120 TiB"));
  }
}

TEST(Arena, AttachRefusesWhatIsNoArena) {
  EXPECT_THAT(refusal_of_attaching(FileDescriptor()), HasSubstr("Bad file descriptor"));
  EXPECT_THAT(refusal_of_attaching(FileDescriptor(open("/dev/null", O_RDWR))),
              HasSubstr("not a sealed memory file"));
  FileDescriptor unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 1 << 20), 0);
  EXPECT_THAT(refusal_of_attaching(FileDescriptor(dup(unsealed.get()))),
              HasSubstr("not a sealed memory file"));
  ASSERT_EQ(fcntl(unsealed.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_THAT(refusal_of_attaching(std::move(unsealed)), HasSubstr("is not an arena"));
}

TEST(Arena, AnotherVersionIsToldToBothSides) {
  const Arena arena = Arena::create(arena_layout({{.elements = 3}}));
  arena.control().prefix.version = kArenaVersion + 1;
  EXPECT_THAT(refusal_of_attaching(duplicate(arena)),
              HasSubstr(format_text("arena version {}, this zf-optimizer uses {}", kArenaVersion + 1,
                                    kArenaVersion)));
  EXPECT_EQ(arena.control().prefix.worker_state.load(), WorkerState::failed);
  EXPECT_THAT(arena.control().prefix.error.load(),
              HasSubstr(format_text("arena version {}", kArenaVersion + 1)));
}

TEST(Arena, AttachRefusesOffsetsThatDoNotFit) {
  const auto refusal_after = [](auto change) {
    const Arena arena = Arena::create(arena_layout({{.elements = 3}, {.elements = 4}}));
    change(arena);
    return refusal_of_attaching(duplicate(arena));
  };
  EXPECT_EQ(refusal_after([](const Arena&) {}), "none");
  const auto block = HasSubstr("control block that does not fit");
  EXPECT_THAT(refusal_after([](const Arena& arena) { arena.control().arena_bytes += 1; }), block);
  EXPECT_THAT(refusal_after([](const Arena& arena) { arena.control().group_count = 1U << 30; }), block);
  EXPECT_THAT(refusal_after([](const Arena& arena) { arena.control().groups_offset = ~0ULL; }), block);
  EXPECT_THAT(refusal_after([](const Arena& arena) { arena.control().ring_capacity = 3; }), block);
  EXPECT_THAT(refusal_after([](const Arena& arena) { arena.control().members_offset = ~0ULL; }), block);
  EXPECT_THAT(refusal_after([](const Arena& arena) { arena.control().note_bytes = ~0ULL; }), block);
  EXPECT_THAT(refusal_after([](const Arena& arena) { arena.group(1).chunk_elements = 0; }),
              HasSubstr("chunks of 0 elements"));
  EXPECT_THAT(refusal_after([](const Arena& arena) { arena.group(1).arrays[2].bytes = ~0ULL; }),
              HasSubstr("group 1 lies outside"));
}

}  // namespace
}  // namespace zf
