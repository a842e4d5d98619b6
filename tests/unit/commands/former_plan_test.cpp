#include "commands/former_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <map>
#include <string>

#include "../os/refuse_call.hpp"
#include "../os/rename_answers.hpp"
#include "../os/tree.hpp"
#include "../plan/make_plan.hpp"
#include "base/error.hpp"
#include "os/file.hpp"
#include "plan/plan_json.hpp"

namespace zf {
namespace {

using testing::HasSubstr;
using Kind = Occupant::Kind;

/// Returns the name that a plan of so many measurements gets among these occupants; "none" if it gets none.
std::string name_among(const std::map<std::string, Occupant>& occupants, int count, bool simulated = false) {
  const auto name = name_for_former("d/p.json", {count, simulated}, [&](const std::filesystem::path& path) {
    const auto found = occupants.find(path.string());
    return found == occupants.end() ? Occupant() : found->second;
  });
  return name ? name->string() : "none";
}

std::map<std::string, Occupant> all_taken() {
  std::map<std::string, Occupant> occupants{{"d/p.json.old", {Kind::plan, {9}}}};
  for (int i = 1; i <= 9; ++i) occupants["d/p.json.old." + std::to_string(i)] = {Kind::plan, {1}};
  return occupants;
}

TEST(NameForFormer, IsOldUnlessThatIsWorthMore) {
  EXPECT_EQ(name_among({}, 5), "d/p.json.old");
  EXPECT_EQ(name_among({{"d/p.json.old", {Kind::plan, {0}}}}, 5), "d/p.json.old");
  EXPECT_EQ(name_among({{"d/p.json.old", {Kind::plan, {5}}}}, 5), "d/p.json.old");
  EXPECT_EQ(name_among({{"d/p.json.old", {Kind::plan, {6}}}}, 5), "d/p.json.old.1");
  EXPECT_EQ(name_among({{"d/p.json.old", {Kind::foreign}}}, 5), "d/p.json.old.1");
}

TEST(NameForFormer, AMeasuredOneIsNotReplacedByASimulatedOne) {
  EXPECT_EQ(name_among({{"d/p.json.old", {Kind::plan, {5}}}}, 99, true), "d/p.json.old.1");
  EXPECT_EQ(name_among({{"d/p.json.old", {Kind::plan, {5, true}}}}, 99, true), "d/p.json.old");
  EXPECT_EQ(name_among({{"d/p.json.old", {Kind::plan, {99, true}}}}, 5), "d/p.json.old");
}

TEST(NameForFormer, ANumberedOneIsNeverReplaced) {
  auto occupants = all_taken();
  EXPECT_EQ(name_among(occupants, 8), "none");
  EXPECT_EQ(name_among(occupants, 9), "d/p.json.old");
  occupants.erase("d/p.json.old.4");
  occupants.erase("d/p.json.old.9");
  EXPECT_EQ(name_among(occupants, 8), "d/p.json.old.4");
  occupants["d/p.json.old.4"] = {Kind::foreign};
  EXPECT_EQ(name_among(occupants, 8), "d/p.json.old.9");
}

TEST(NameForFormer, IsTheOneThatAKilledProcessGaveIt) {
  auto occupants = all_taken();
  occupants["d/p.json.old.3"] = {Kind::former};
  EXPECT_EQ(name_among(occupants, 100), "d/p.json.old.3");
}

TEST(MeasurementsOf, CountsVisitsAndRunsOfTheJob) {
  Plan plan = make_plan();
  EXPECT_EQ(measurements_of(plan).count, 3 + 3);
  plan.evidence.samples.push_back(plan.evidence.samples.back());
  EXPECT_EQ(measurements_of(plan).count, 3 + 3) << "two samples of one visit";
  plan.trial.reset();
  EXPECT_EQ(measurements_of(plan).count, 3);
  EXPECT_FALSE(measurements_of(plan).are_simulated);
  plan.evidence.isa = kSimulated;
  EXPECT_TRUE(measurements_of(plan).are_simulated);
  plan.evidence.samples.clear();
  EXPECT_EQ(measurements_of(plan).count, 0);
}

class KeepsFormerPlan : public testing::Test {
 protected:
  void SetUp() override { save(path_, 3); }

  /// Writes a plan of so many visits, which differs from all others.
  void save(const std::filesystem::path& path, int visits) {
    Plan plan = make_plan();
    plan.trial.reset();
    plan.made.command = std::to_string(++saved_);
    plan.evidence.samples.resize(1);
    for (int i = 1; i < visits; ++i) {
      plan.evidence.samples.push_back(plan.evidence.samples.front());
      plan.evidence.samples.back().round = i;
    }
    if (visits == 0) plan.evidence.samples.clear();
    save_plan(plan, path);
  }

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      found.push_back(entry.path().filename());
    std::sort(found.begin(), found.end());
    return found;
  }

  std::string text(const char* name) const { return read_text_file(folder_.path() / name); }

  TestFolder folder_;
  std::filesystem::path path_ = folder_.path() / "p.json";
  const Plan next_ = make_plan();
  int saved_ = 0;
};

TEST_F(KeepsFormerPlan, ItHasBothNamesUntilTheNewOneIsThere) {
  const std::string before = text("p.json");
  FormerPlan former(path_);
  former.keep(next_);
  EXPECT_EQ(text("p.json"), before);
  EXPECT_EQ(text("p.json.old"), before);
  EXPECT_EQ(former.note(), "moved the former plan to " + path_.string() + ".old");

  FormerPlan after_a_kill(path_);
  after_a_kill.keep(next_);
  EXPECT_EQ(names(), (std::vector<std::string>{"p.json", "p.json.old"})) << "it is kept already";

  save(path_, 1);
  EXPECT_EQ(text("p.json.old"), before);
}

TEST_F(KeepsFormerPlan, AWriteThatFailsAfterItsRenameLosesNeither) {
  const std::string before = text("p.json");
  FormerPlan former(path_);
  former.keep(next_);
  save(path_, 1);
  former.put_back();
  EXPECT_EQ(text("p.json.old"), before);
}

TEST_F(KeepsFormerPlan, TheSamePlanAgainNeedsNoCopy) {
  FormerPlan former(path_);
  former.keep(load_plan(path_));
  EXPECT_EQ(former.note(), std::nullopt);
  EXPECT_EQ(names(), std::vector<std::string>{"p.json"});
}

TEST_F(KeepsFormerPlan, OldIsReplacedInOneStep) {
  save(folder_.path() / "p.json.old", 3);
  std::ofstream(folder_.path() / ".p.json.old.tmp") << "of a killed process";
  const std::string before = text("p.json");
  FormerPlan(path_).keep(next_);
  EXPECT_EQ(text("p.json.old"), before);
  EXPECT_EQ(names(), (std::vector<std::string>{"p.json", "p.json.old"}));
}

TEST_F(KeepsFormerPlan, OldWithMoreVisitsStays) {
  save(folder_.path() / "p.json.old", 4);
  const std::string better = text("p.json.old");
  const std::string before = text("p.json");
  FormerPlan(path_).keep(next_);
  EXPECT_EQ(text("p.json.old"), better);
  EXPECT_EQ(text("p.json.old.1"), before);
}

TEST_F(KeepsFormerPlan, OldThatIsNoPlanStays) {
  const auto old = folder_.path() / "p.json.old";
  for (int kind = 0; kind < 3; ++kind) {
    SCOPED_TRACE(kind);
    std::filesystem::remove_all(old);
    if (kind == 0) std::ofstream(old) << "mine";
    if (kind == 1) std::filesystem::create_directory(old);
    if (kind == 2) std::filesystem::create_symlink("nowhere", old);
    FormerPlan former(path_);
    former.keep(next_);
    EXPECT_THAT(former.note().value_or(""), HasSubstr("p.json.old.1"));
    EXPECT_EQ(text("p.json.old.1"), text("p.json"));
    std::filesystem::remove(folder_.path() / "p.json.old.1");
  }
}

TEST_F(KeepsFormerPlan, OldOfAnotherUserStays) {
  const auto old = folder_.path() / "p.json.old";
  save(old, 1);
  if (::chown(old.c_str(), ::geteuid() + 1, static_cast<gid_t>(-1)) != 0)
    GTEST_SKIP() << "only root can give files away";
  FormerPlan former(path_);
  former.keep(next_);
  EXPECT_THAT(former.note().value_or(""), HasSubstr("p.json.old.1"));
}

TEST_F(KeepsFormerPlan, WhereNoNameIsFreeNothingIsChanged) {
  for (int i = 0; i < 10; ++i)
    std::ofstream(path_.string() + ".old" + (i == 0 ? "" : "." + std::to_string(i))) << "mine";
  const auto before = names();
  for (const bool keep : {false, true}) {
    try {
      FormerPlan former(path_);
      keep ? former.keep(next_) : former.look();
      FAIL() << "all names are taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::runtime_error);
      EXPECT_EQ(error.what(),
                path_.string() + ": what is there cannot be kept: " + path_.string() +
                    ".old and p.json.old.1 to p.json.old.9 are all taken; move one of them away, "
                    "or choose another -o FILE");
    }
  }
  EXPECT_EQ(names(), before);
}

TEST_F(KeepsFormerPlan, WhatRestsOnNoMeasurementIsNotKept) {
  save(path_, 0);
  const auto expect_nothing = [&](const std::vector<std::string>& there) {
    FormerPlan former(path_);
    former.keep(next_);
    EXPECT_EQ(former.note(), std::nullopt);
    EXPECT_EQ(names(), there);
  };
  expect_nothing({"p.json"});
  std::ofstream(path_, std::ios::trunc).flush();
  expect_nothing({"p.json"});
  std::filesystem::remove(path_);
  expect_nothing({});
  std::filesystem::create_symlink("nowhere", path_);
  expect_nothing({"p.json"});
}

TEST_F(KeepsFormerPlan, WhatIsNoPlanIsKeptAndSaid) {
  for (const char* const content : {"my notes", R"({"schema":"zf-plan/9"})"}) {
    std::ofstream(path_, std::ios::trunc) << content;
    FormerPlan former(path_);
    former.keep(next_);
    EXPECT_EQ(text("p.json.old"), content);
    EXPECT_EQ(former.note(),
              "moved " + path_.string() + ", which cannot be read as a plan, to " + path_.string() + ".old");
    std::filesystem::remove(folder_.path() / "p.json.old");
  }
}

TEST_F(KeepsFormerPlan, ItComesBackIfTheNewOneCannotBeWritten) {
  const std::string before = text("p.json");
  FormerPlan former(path_);
  former.keep(next_);
  former.put_back();
  EXPECT_EQ(names(), std::vector<std::string>{"p.json"});
  EXPECT_EQ(text("p.json"), before);
}

TEST_F(KeepsFormerPlan, WhereAFileHasOneNameItIsRenamed) {
  const std::string before = text("p.json");
  const auto old = folder_.path() / "p.json.old";
  const auto work = [&] {
    for (const int visits : {0, 1, -1}) {  // of the plan at NAME.old; 0: there is none; -1: none, as on NFS
      if (visits > 0) save(old, visits);
      FormerPlan former(path_);
      rename_answers = visits < 0 ? ENOENT : 0;  // although the file is renamed
      former.keep(next_);
      rename_answers = 0;
      if (std::filesystem::exists(path_) || read_text_file(old) != before) return 1;
      former.put_back();
      if (std::filesystem::exists(old) || read_text_file(path_) != before) return 2;
    }
    return 0;
  };
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
#ifdef SYS_link
    refuse_call(SYS_link, EPERM);
#endif
    refuse_call(SYS_linkat, EPERM);
    try {
      _exit(work());
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(3);
    }
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoFilters)
    GTEST_SKIP() << "seccomp filters are not to be had here";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace zf
