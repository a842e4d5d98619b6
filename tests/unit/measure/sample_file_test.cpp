#include "measure/sample_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "../os/refuse_call.hpp"
#include "base/error.hpp"
#include "os/atomic_file.hpp"
#include "os/file.hpp"

namespace zf {
namespace {

using testing::HasSubstr;

/// Counts its visits, and answers each with its number.
class CountingMeter : public Meter {
 public:
  std::vector<SplitSample> measure(const Split&, const VisitLimits& limits) override {
    ++visits;
    SplitSample sample;
    sample.step_ns = sample.roofline_ns = visits;
    sample.training_bytes = ~std::uint64_t{0};
    return std::vector<SplitSample>(static_cast<std::size_t>(limits.samples), sample);
  }
  std::uint64_t elements_per_rank() const override { return 1000; }
  StateFormat state_format() const override { return format; }
  double scale() const override { return 0.5; }
  std::string isa() const override { return "scalar"; }

  int visits = 0;
  StateFormat format = StateFormat::fp32;
};

const std::string kHeader = R"({"schema":"zf-samples/5"})";
const std::string kOtherHeader = R"({"schema":"zf-samples/5","machine":"other"})";

Split split_called(const char* label) { return {{}, label, {}}; }

class SampleFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "zf-samples-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ / "plan.json.samples.jsonl";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  using Rounds = std::vector<std::vector<const char*>>;

  /// Makes the visits of these rounds and returns the answers. Of the last round only `of_last` visits are
  /// made, as if the sweep was interrupted then.
  std::vector<Nanoseconds> visit(const Rounds& rounds, bool finish = false, bool fresh = false,
                                 const std::string& header = kHeader, std::size_t of_last = 100) {
    RecordingMeter meter(inner_, path_, header, fresh);
    recorded_ = meter.recorded_visits();
    std::vector<Nanoseconds> steps;
    for (const auto& round : rounds) {
      meter.begin_round({round.begin(), round.end()});
      const std::size_t visits = &round == &rounds.back() ? std::min(of_last, round.size()) : round.size();
      for (std::size_t i = 0; i < visits; ++i)
        steps.push_back(meter.measure(split_called(round[i]), {.samples = 2}).front().step_ns);
    }
    if (finish) meter.finish();
    return steps;
  }

  std::filesystem::path folder_;
  std::filesystem::path path_;
  CountingMeter inner_;
  int recorded_ = 0;
};

TEST_F(SampleFile, AnInterruptedSweepGoesOnRoundForRound) {
  EXPECT_THAT(visit({{"a", "b"}, {"a"}}), testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(visit({{"b", "a"}, {"a"}, {"b", "c"}}), testing::ElementsAre(2, 1, 3, 4, 5))
      << "the order within a round does not matter";
  EXPECT_EQ(recorded_, 3);
  EXPECT_THAT(visit({{"b", "c"}, {"a", "b"}, {"a", "b"}}), testing::ElementsAre(4, 5, 1, 2, 6, 7))
      << "nor that of rounds, and none is used twice";
  EXPECT_EQ(recorded_, 5);
}

TEST_F(SampleFile, ARoundThatWasInterruptedIsMeasuredAgainAsAWhole) {
  visit({{"a", "b"}, {"a", "b", "c"}}, false, false, kHeader, 2);
  const std::string before = read_text_file(path_);
  EXPECT_THAT(visit({{"a", "b"}, {"a", "b", "c"}}), testing::ElementsAre(1, 2, 5, 6, 7))
      << "no round has visits of two sessions";
  EXPECT_EQ(recorded_, 2);
  EXPECT_THAT(read_text_file(path_), testing::StartsWith(before)) << "no sample is lost";
  EXPECT_THAT(visit({{"a", "b"}, {"a", "b", "c"}}), testing::ElementsAre(1, 2, 5, 6, 7));
}

TEST_F(SampleFile, ARoundOfOtherSplitsIsNotAnsweredInPart) {
  visit({{"a", "b"}});
  EXPECT_THAT(visit({{"a", "c"}}), testing::ElementsAre(3, 4));
}

TEST_F(SampleFile, AVisitThatWasRepeatedIsAnsweredAsOftenAsItWasMade) {
  for (const bool recorded : {false, true}) {
    RecordingMeter meter(inner_, path_, kHeader, false);
    meter.begin_round({"a"});
    const auto samples = [&] { return meter.measure(split_called("a"), {.samples = 2}).size(); };
    EXPECT_EQ(samples(), 2U);
    EXPECT_EQ(samples(), 2U);
    if (recorded) {
      EXPECT_EQ(samples(), 0U) << "a third visit would be of another session";
    }
  }
}

TEST_F(SampleFile, AFinishedOneBeginsAnew) {
  visit({{"a"}}, true);
  EXPECT_THAT(visit({{"a"}}), testing::ElementsAre(2));
  EXPECT_EQ(recorded_, 0);
}

TEST_F(SampleFile, SoDoesOneOfAnotherMachineOrWorkloadAndAFreshOne) {
  visit({{"a"}});
  EXPECT_THAT(visit({{"a"}}, false, false, kOtherHeader), testing::ElementsAre(2));
  EXPECT_THAT(visit({{"a"}}, false, true, kOtherHeader), testing::ElementsAre(3));
}

TEST_F(SampleFile, OneWithAFinishedRoundCanBeContinued) {
  EXPECT_FALSE(can_continue(path_, kHeader)) << "there is none";
  EXPECT_FALSE(can_continue(folder_, kHeader));
  EXPECT_FALSE(can_continue(folder_ / std::string(300, 'n'), kHeader));
  visit({{"a", "b"}}, false, false, kHeader, 1);
  EXPECT_FALSE(can_continue(path_, kHeader)) << "its only round was interrupted";
  visit({{"a", "b"}});
  EXPECT_TRUE(can_continue(path_, kHeader));
  EXPECT_FALSE(can_continue(path_, kOtherHeader));
  visit({{"a", "b"}}, true);
  EXPECT_FALSE(can_continue(path_, kHeader)) << "it was finished";
}

TEST_F(SampleFile, ATornLastLineIsDroppedWhereverItWasCut) {
  visit({{"a"}, {"b"}});
  const std::string whole = read_text_file(path_);
  const auto last_line = whole.rfind('\n', whole.size() - 2) + 1;
#ifdef ZF_SANITIZED
  constexpr std::size_t kStride = 7;
#else
  constexpr std::size_t kStride = 1;
#endif
  for (std::size_t length = 0; length < whole.size(); length += kStride) {
    write_text_file_atomically(path_, whole.substr(0, length));
    const auto steps = visit({{"a"}, {"b"}, {"c"}});
    EXPECT_EQ(read_text_file(path_).back(), '\n') << length;
    if (length > last_line) {
      EXPECT_THAT(steps, testing::ElementsAre(1, 2, testing::_)) << length;
    }
    EXPECT_EQ(visit({{"c"}}).front(), steps[2]) << "and what was written behind it can be read: " << length;
  }
}

TEST_F(SampleFile, AnEditedOneIsNotBelieved) {
  for (const char* line :
       {R"({"split":"a","visit":-1})", R"({"round":1})",
        R"({"split":"b","visit":0,"step_ns":1,"roofline_ns":1,"training_ns":0,"launch_delay_p50_ns":0,)"
        R"("launch_delay_p99_ns":0,"training_bytes":0})"}) {
    const Nanoseconds first = visit({{"a"}}, false, true).front();
    std::ofstream(path_, std::ios::app) << line << "\n";
    EXPECT_THAT(visit({{"a"}}), testing::ElementsAre(first + 1)) << line;
  }
}

TEST_F(SampleFile, TwoAtOnceAreRefused) {
  const RecordingMeter first(inner_, path_, kHeader, false);
  try {
    const RecordingMeter second(inner_, path_, kHeader, false);
    FAIL() << "two meters write one file";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(path_.string()));
    EXPECT_THAT(error.what(), HasSubstr("another zf-tune"));
  }
}

/// Checks that the file is refused with one line that names it and says this, and that it stays as it is.
void expect_refused(const std::filesystem::path& path, const std::string& why) {
  CountingMeter inner;
  for (const bool fresh : {false, true}) {
    try {
      const RecordingMeter meter(inner, path, kHeader, fresh);
      ADD_FAILURE() << "it was taken for a sample file";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::usage);
      EXPECT_EQ(error.what(), path.string() + ": zf-tune tune would keep its samples there, but this " + why +
                                  "; move it away, or choose another -o FILE");
    }
  }
}

TEST_F(SampleFile, WhatIsNoneIsNotTouched) {
  for (const std::string text :
       {"precious", "{}", "{\"schema\":\"zf-plan/2\"}\n", "\n", " {\"schema\":\"zf-samples/5\"}"}) {
    write_text_file_atomically(path_, text);
    expect_refused(path_, "is not a sample file of zf-tune");
    EXPECT_EQ(read_text_file(path_), text);
  }
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  expect_refused(path_, "is not a regular file");
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  expect_refused(path_, "is not a regular file");
  std::filesystem::remove(path_);
  const auto target = folder_ / "target";
  write_text_file_atomically(target, "");
  std::filesystem::create_symlink(target, path_);
  expect_refused(path_, "is not a regular file");
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(read_text_file(target), "");
}

TEST_F(SampleFile, OneOfAnotherUserIsNotTouched) {
  visit({{"a"}});
  const std::string before = read_text_file(path_);
  if (::chown(path_.c_str(), ::geteuid() + 1, static_cast<gid_t>(-1)) != 0)
    GTEST_SKIP() << "only root can give files away";
  expect_refused(path_, "belongs to user " + std::to_string(::geteuid() + 1));
  EXPECT_EQ(read_text_file(path_), before);
}

TEST_F(SampleFile, AnEmptyOneOrOneOfAnOlderVersionIsOurs) {
  for (const char* text :
       {"", "{\"schema\":\"zf-sam", "{\"schema\":\"zf-samples/4\",\"by\":\"zf-tune 0.1.0\"}\n"}) {
    write_text_file_atomically(path_, text);
    visit({{"a"}});
    EXPECT_EQ(recorded_, 0);
    EXPECT_THAT(read_text_file(path_), testing::StartsWith(kHeader + "\n"));
  }
}

TEST_F(SampleFile, OnlyAnInterruptedSweepWithAFinishedRoundCanGoOn) {
  RecordingMeter meter(inner_, path_, kHeader, false);
  EXPECT_FALSE(meter.can_continue());
  meter.begin_round({"a", "b"});
  meter.measure(split_called("a"), {.samples = 2});
  EXPECT_FALSE(meter.can_continue()) << "the round would be measured again";
  meter.measure(split_called("b"), {.samples = 2});
  EXPECT_TRUE(meter.can_continue());
  meter.finish();
  EXPECT_FALSE(meter.can_continue());
}

TEST_F(SampleFile, AFileSystemWithoutLocksIsSaidAndUsed) {
  for (const int error : {ENOSYS, ENOLCK, EOPNOTSUPP}) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      refuse_call(SYS_flock, error);
      try {
        RecordingMeter meter(inner_, path_, kHeader, true);
        meter.begin_round({"a"});
        meter.measure(split_called("a"), {.samples = 2});
        _exit(!meter.notes().empty() && meter.notes()[0].find("cannot be locked here") != std::string::npos
                  ? 0
                  : 1);
      } catch (const Error&) {
        _exit(1);
      }
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kNoFilters)
      GTEST_SKIP() << "seccomp filters are not to be had here";
    EXPECT_EQ(status, 0) << error;
  }
  EXPECT_THAT(visit({{"a"}}), testing::ElementsAre(1)) << "what was recorded without a lock is read";
  EXPECT_THAT(RecordingMeter(inner_, path_, kHeader, false).notes(), testing::IsEmpty());
}

TEST_F(SampleFile, TheHeaderTellsApartWhatMustNotBeMixed) {
  MachineClass machine;
  machine.fingerprint = "1";
  Allocation allocation;
  Workload workload{"w", 10, 1, 1, {}};
  std::vector<Home> homes(1);
  homes[0].cores.push_back({{Pu{3}}, Node{0}, 0, 0});
  const std::string header = sample_file_header(machine, allocation, workload, homes, inner_);
  EXPECT_THAT(header, testing::Not(HasSubstr("\n")));
  const auto differs = [&] {
    return sample_file_header(machine, allocation, workload, homes, inner_) != header;
  };
  EXPECT_FALSE(differs());
  inner_.format = StateFormat::bf16;
  EXPECT_TRUE(differs());
  inner_.format = StateFormat::fp32;
  workload.update_interval = 2;
  EXPECT_TRUE(differs());
  workload.update_interval = 1;
  homes[0].cores[0].cpus = {Pu{4}};
  EXPECT_TRUE(differs());
}

}  // namespace
}  // namespace zf
