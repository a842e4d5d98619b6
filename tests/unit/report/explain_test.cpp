#include "report/explain.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paths.hpp"
#include "plan/plan_json.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

using testing::HasSubstr;
using testing::Not;

Plan example(const char* name) { return load_plan(std::string(kSourceDir) + "/configs/examples/" + name); }

TEST(Explain, SaysWhoGetsWhatAndWhy) {
  const Plan plan = example("slurm-sparse-32.json");
  const std::string text = explain(plan);
  EXPECT_THAT(text, HasSubstr("0,4-11,21-26,30-46"));
  EXPECT_THAT(text, HasSubstr("Why: " + sentences(plan.choice.reason).front()));
  for (const std::string& sentence : sentences(plan.choice.reason)) EXPECT_THAT(text, HasSubstr(sentence));
  for (const RankBinding& rank : plan.ranks) EXPECT_FALSE(rank.shared);
  EXPECT_THAT(bindings_table(plan).print(), Not(HasSubstr("shared")));
}

TEST(Explain, NamesModeAndFramework) {
  Plan plan = example("slurm-sparse-32.json");
  plan.workload.mode = Mode::backward;
  plan.workload.framework = Framework::deepspeed_zenflow;
  EXPECT_THAT(explain(plan), HasSubstr("mode backward, update interval 4, framework deepspeed-zenflow\n"));
}

TEST(Explain, MarksTheChosenCandidateAndNoOther) {
  const std::string table = evidence_table(example("slurm-sparse-32.json")).print();
  EXPECT_THAT(table, HasSubstr("  >  pool 6, compact"));
  EXPECT_EQ(table.find('>'), table.rfind('>'));
  EXPECT_LT(table.find("pool 4"), table.find("pool 6")) << "fewest threads first";
}

TEST(Explain, ASharedCoreIsSaidAndWarnedOf) {
  const std::string text = explain(example("one-core.json"));
  EXPECT_THAT(text, HasSubstr("shared"));
  EXPECT_THAT(text, HasSubstr("Note: rank 0 has one core"));
}

/// Returns the text for a plan that says this wherever it can.
std::string explained(const std::string& words) {
  Plan plan = example("slurm-sparse-32.json");
  plan.made = {words, words, words, words};
  plan.machine.model = plan.machine.fingerprint = plan.workload.name = plan.evidence.isa = words;
  plan.choice.reason = words;
  plan.warnings = plan.allocation.notes = {words};
  for (CandidateEvidence& candidate : plan.evidence.candidates) candidate.label = words;
  plan.trial =
      Trial{.command = words, .metric = words, .candidates = {{.label = words, .median = 1, .runs = {}}}};
  plan.ranks.front().gpu = RankGpu{.pci_address = words};
  return explain(plan);
}

TEST(Explain, WhateverAPlanSaysIsCut) {
  const std::size_t megabyte = 1 << 20;
  const std::string text = explained(std::string(megabyte, 'x'));
  EXPECT_LT(text.size(), explained("x").size() + megabyte);
  EXPECT_THAT(text, HasSubstr("Warning: xxx"));
  EXPECT_THAT(text, HasSubstr("xxx...."));
}

}  // namespace
}  // namespace zf
