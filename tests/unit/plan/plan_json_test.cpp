#include "plan/plan_json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "make_plan.hpp"
#include "os/file.hpp"
#include "plan/reserved_perc.hpp"

namespace zf {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// Returns the error of the reader for a text; "" if it accepts the text. Any exception but Error(usage) is a
/// failure.
std::string refusal(const std::string& text) {
  try {
    parse_plan(text, "plan.json");
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage) << error.what();
    EXPECT_LT(std::string_view(error.what()).size(), 700U);
    return error.what();
  }
}

const json& sound() {
  static const json plan = json::parse(print_plan(make_plan()));
  return plan;
}

json changed(const std::string& pointer, const json& value) {
  json plan = sound();
  plan[json::json_pointer(pointer)] = value;
  return plan;
}

json without(const std::string& pointer) {
  json plan = sound();
  const json::json_pointer path(pointer);
  plan[path.parent_pointer()].erase(path.back());
  return plan;
}

TEST(PlanJson, ParseOfPrintIsTheSamePlan) {
  const Plan plan = make_plan();
  EXPECT_EQ(parse_plan(print_plan(plan), "plan.json"), plan);
  EXPECT_THAT(print_plan(plan),
              AllOf(StartsWith("{\n  \"schema\": \"zf-plan/2\",\n"), testing::EndsWith("}\n")));

  Plan full = plan;
  full.workload.mode = Mode::wait;
  full.workload.framework = Framework::deepspeed_zenflow;
  full.ranks[1].gpu = RankGpu{"0000:3b:00.0", Node{1}, parse_cpu_list("31-38", "test"), 3, "GPU-3b"};
  full.choice.headroom = Headroom{1.5, 2.25};
  EXPECT_EQ(parse_plan(print_plan(full), "plan.json"), full);

  Plan shared = plan;
  shared.intent.shared = true;
  for (RankBinding& rank : shared.ranks) {
    rank.shared = true;
    rank.training = {rank.home.cpus, rank.home.threads};
    rank.pt_reserved_cores = 0;
    const int all = static_cast<int>(rank.home.cpus.size());
    rank.pt_reserved_cores_perc = reserved_perc(all, all);
  }
  EXPECT_EQ(parse_plan(print_plan(shared), "plan.json"), shared) << "a pool on some of training's CPUs";

  Plan bare = plan;
  bare.allocation.cpu_quota.reset();
  bare.allocation.memory_bytes.reset();
  bare.choice.candidate = -1;
  bare.evidence = {};
  bare.warnings.clear();
  bare.made.command = "zf-tune --topology 'a \"b\" \\ \n\t\x01 ü'";
  EXPECT_EQ(parse_plan(print_plan(bare), "plan.json"), bare);
}

TEST(PlanJson, ParseOfPrintHoldsForAnyNumbers) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> real(0, 1);
  for (std::size_t round = 0; round < 300; round += ZF_FEWER) {
    Plan plan = make_plan();
    plan.workload.params = random() | 1;
    plan.allocation.memory_bytes = random() | 1;
    plan.allocation.cpu_quota = real(random) * 1e-3 + 1e-300;
    plan.intent.reserved_fraction = real(random);
    plan.evidence.roofline.bytes_per_s_median = real(random) * 1e300;
    for (Sample& sample : plan.evidence.samples)
      sample.times.step_ns = static_cast<Nanoseconds>(random() >> 1);
    plan.machine.cpus.insert(Pu{static_cast<int>(48 + random() % 60000)});
    plan.machine.pus = 49;
    ASSERT_EQ(parse_plan(print_plan(plan), "plan.json"), plan);
  }
}

TEST(PlanJson, BytesThatAreNoUtf8DoNotStopAPlan) {
  Plan plan = make_plan();
  plan.made.command = "zf-tune --report \xff.html";
  EXPECT_EQ(refusal(print_plan(plan)), "");
}

TEST(PlanJson, EachBrokenFieldIsNamed) {
  const struct {
    const char* says;
    json plan;
  } cases[] = {
      {"plan.json: ranks[0].optimizer.cpus: is 7, not a text; ", changed("/ranks/0/optimizer/cpus", 7)},
      {"plan.json: ranks[0].optimizer.cpus: is missing; ", without("/ranks/0/optimizer/cpus")},
      {"plan.json: ranks[0].optimizer.cpus: is empty; ", changed("/ranks/0/optimizer/cpus", "")},
      {"plan.json: ranks[0].optimizer.cpus: overlaps training.cpus on 22; ",
       changed("/ranks/0/optimizer/cpus", "22-26")},
      {"plan.json: ranks[0].optimizer.cpus: names 12, outside allocation.cpus 0,4-11,21-26,30-46; ",
       changed("/ranks/0/optimizer/cpus", "12,23-26")},
      {"plan.json: ranks[0].optimizer.cpus: \"70000\" is not a list of indexes from 0 to 65535: \"70000\" is "
       "wrong; ",
       changed("/ranks/0/optimizer/cpus", "70000")},
      {"plan.json: ranks[0].optimizer.cpus: \"4-2\" is not a list",
       changed("/ranks/0/optimizer/cpus", "4-2")},
      {"plan.json: ranks[0].optimizer.cpus: \"a\" is not a list", changed("/ranks/0/optimizer/cpus", "a")},
      {"plan.json: ranks[0].optimizer.cpus: \"23,\" is not a list",
       changed("/ranks/0/optimizer/cpus", "23,")},
      {"plan.json: ranks[0].optimizer.cpus: \"24,23\" is not ascending at \"23\"; ",
       changed("/ranks/0/optimizer/cpus", "24,23")},
      {"plan.json: ranks[0].optimizer.memory_policy: is \"nearest\"; it must be one of preferred, bind, "
       "none; ",
       changed("/ranks/0/optimizer/memory_policy", "nearest")},
      {"plan.json: ranks[0].trainning: no such field; ", changed("/ranks/0/trainning", 1)},
      {"plan.json: comment: no such field; ", changed("/comment", "mine")},
      {"plan.json: ranks[1].training.threads: is -1, not between 1 and 2147483647; ",
       changed("/ranks/1/training/threads", -1)},
      {"plan.json: ranks[1].training.threads: is 4294967297, not between",
       changed("/ranks/1/training/threads", 4294967297)},
      {"plan.json: ranks[1].training.threads: is 2.5, not a whole number",
       changed("/ranks/1/training/threads", 2.5)},
      {"plan.json: ranks[1].shared: is 1, neither true nor false", changed("/ranks/1/shared", 1)},
      {"plan.json: ranks: is an object, not a list", changed("/ranks", json::object())},
      {"plan.json: ranks: is empty; ", changed("/ranks", json::array())},
      {"plan.json: workload.params: is 0, not between 1 and 18446744073709551615",
       changed("/workload/params", 0)},
      {"plan.json: workload.params: is 1e+30, not a whole number", changed("/workload/params", 1e30)},
      {"plan.json: allocation.cpu_quota: is null, not a number", changed("/allocation/cpu_quota", nullptr)},
      {"plan.json: evidence.samples[2].candidate: is 9, which evidence.candidates does not have; ",
       changed("/evidence/samples/2/candidate", 9)},
      {"plan.json: warnings[0]: is a list, not a text", changed("/warnings/0", json::array())},
      {"plan.json: schema: is missing", without("/schema")},
      {"plan.json: schema: is \"zf-plan/3\"; it must be \"zf-plan/2\"; ", changed("/schema", "zf-plan/3")},
      {"plan.json: workload.mode: is \"late\"; it must be one of overlap, exact, backward, wait",
       changed("/workload/mode", "late")},
      {"plan.json: workload.framework: is \"jax\"; it must be one of native, ",
       changed("/workload/framework", "jax")},
      {"plan.json: intent.state_format: is \"int4\"; it must be one of fp32, bf16, split, bf16+split",
       changed("/intent/state_format", "int4")},
      {"plan.json: intent.shared: is true, but rank 0 is not shared", changed("/intent/shared", true)},
      {"plan.json: ranks[0].home.threads: is 0, not between 1 and", changed("/ranks/0/home/threads", 0)},
      {"plan.json: ranks[0].training.cpus: names 0, outside home.cpus",
       changed("/ranks/0/home/cpus", "4-11,21-26,30")},
      {"plan.json: schema: is 1, not a text", changed("/schema", 1)},
      {"plan.json: schema: is \"zf-plan/9\"; it must be \"zf-plan/2\"; it is of a newer version: use that",
       changed("/schema", "zf-plan/9")},
      {"plan.json: schema: is \"zf-plan/10\"; it must be \"zf-plan/2\"; it is of a newer version: use that",
       changed("/schema", "zf-plan/10")},
      {"plan.json: schema: is \"zf-plan/2.1\"; it must be \"zf-plan/2\"; give a file of that kind",
       changed("/schema", "zf-plan/2.1")},
      {"plan.json: schema: is \"zf-plan/1\"; it must be \"zf-plan/2\"; give a file of that kind; one of an "
       "older",
       changed("/schema", "zf-plan/1")},
      {"plan.json: schema: is \"zf-node/9\"; it must be \"zf-plan/2\"; give a file of that kind; one of an "
       "older",
       changed("/schema", "zf-node/9")},
      {"plan.json: is a list, not an object", json::array()},
      {"plan.json: is null, not an object", json()},
  };
  for (const auto& c : cases) EXPECT_THAT(refusal(c.plan.dump()), StartsWith(c.says));
}

TEST(PlanJson, AnotherVersionIsNamedBeforeItsOtherFields) {
  json plan = changed("/schema", "zf-plan/9");
  plan["novelty"] = 1;
  plan.erase("ranks");
  EXPECT_THAT(refusal(plan.dump()), HasSubstr("\"zf-plan/9\""));
}

TEST(PlanJson, WhatIsNoJsonSaysWhere) {
  EXPECT_THAT(refusal(""), StartsWith("plan.json: is not JSON: line 1, column 1"));
  EXPECT_THAT(refusal("{\n  \"schema\": \"zf-plan/2\",\n  \"made\""),
              StartsWith("plan.json: is not JSON: line 3, column 9"));
  EXPECT_THAT(refusal("{\"schema\": 1e999}"), StartsWith("plan.json: is not JSON: number overflow"));
  EXPECT_THAT(refusal(print_plan(make_plan()) + std::string(1, '\0')), HasSubstr("NUL byte"));
  EXPECT_THAT(refusal("{\"schema\": NaN}"), StartsWith("plan.json: is not JSON: "));
  EXPECT_THAT(refusal(std::string("\x7f"
                                  "ELF\0\xff\xfe",
                                  7)),
              StartsWith("plan.json: is not JSON: "));
  EXPECT_THAT(refusal(print_plan(make_plan()) + "{}"), StartsWith("plan.json: is not JSON: "));
  EXPECT_THAT(refusal("{\"schema\": \"" + std::string(1 << 20, 'x')), StartsWith("plan.json: is not JSON: "));
}

TEST(PlanJson, AFieldThatIsThereTwiceIsRefused) {
  std::string text = print_plan(make_plan());
  text.insert(text.find("\"threads\""), "\"threads\": 3, ");
  EXPECT_THAT(refusal(text), StartsWith("plan.json: the field \"threads\" appears twice; "));
}

TEST(PlanJson, BombsAreRefusedAtOnce) {
  EXPECT_THAT(refusal(std::string(1 << 20, '[')), HasSubstr("nested deeper than 16 levels"));
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  EXPECT_THAT(refusal(objects), HasSubstr("nested deeper than 16 levels"));
  std::string fields = "{\"a\":0";
  for (int i = 0; i < 100000; ++i) fields += ",\"" + std::to_string(i) + "\":0";
  EXPECT_THAT(refusal(fields + "}"), HasSubstr("has more than 100000 fields in an object"));
  std::string list = "0-65535";
  for (int i = 0; i < 100000; ++i) list += ",0-65535";
  EXPECT_THAT(refusal(changed("/machine/cpus", list).dump()), HasSubstr("is not ascending"));
}

/// Returns pointers to everything inside a document, down to the leaves.
void collect(const json& value, const json::json_pointer& path, std::vector<json::json_pointer>& all) {
  if (!path.empty()) all.push_back(path);
  if (value.is_object()) {
    for (const auto& [key, child] : value.items()) collect(child, path / key, all);
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) collect(value[i], path / i, all);
  }
}

TEST(PlanJson, EveryFieldOfAWrongTypeOrMissingIsRefused) {
  std::vector<json::json_pointer> all;
  collect(sound(), json::json_pointer(), all);
  ASSERT_GT(all.size(), 90U);
  const json values[] = {
      nullptr, true, -1, 0.5, 1e300, "?", "", json::array({nullptr}), json::object({{"x", 1}})};
  for (std::size_t at = 0; at < all.size(); ++at) {
    const json::json_pointer& path = all[at];
    const json original = sound()[path];
    for (std::size_t number = at % ZF_FEWER; number < std::size(values); number += ZF_FEWER) {
      const json& value = values[number];
      if (value.type() == original.type() || (value.is_number() && original.is_number())) continue;
      EXPECT_NE(refusal(changed(path.to_string(), value).dump()), "") << path.to_string() << " = " << value;
    }
    if (original.is_number_integer()) {
      for (const json& value : {json(-1), json(0.5), json(1e300), json(std::uint64_t{1} << 63)}) {
        const bool fits =
            value == json(std::uint64_t{1} << 63) &&
            (path.back() == "params" || path.back() == "memory_bytes" || path.back() == "training_bytes" ||
             path.back() == "elements_per_rank" || path.back() == "working_set_bytes_per_rank");
        EXPECT_EQ(refusal(changed(path.to_string(), value).dump()).empty(), fits)
            << path.to_string() << " = " << value;
      }
    }
    // An element of a list may be missing if nothing depends on it.
    if (sound()[path.parent_pointer()].is_array()) continue;
    const bool optional = path.back() == "cpu_quota" || path.back() == "memory_bytes" ||
                          path.back() == "pool_kind" || path.back() == "trial" || path.back() == "gpu" ||
                          path.back() == "notes" || path.back() == "node" || path.back() == "forward_share" ||
                          path.back() == "estimate_round" || path.to_string() == "/workload/training" ||
                          path.to_string() == "/choice/candidate";
    EXPECT_EQ(refusal(without(path.to_string()).dump()).empty(), optional) << "without " << path.to_string();
    EXPECT_NE(refusal(changed(path.parent_pointer().to_string() + "/unknown", 1).dump()), "");
  }
}

TEST(PlanJson, ACutOffFileIsRefusedWhereverItEnds) {
  const std::string text = print_plan(make_plan());
  for (std::size_t length = 0; length + 2 < text.size(); length += ZF_FEWER) {
    ASSERT_NE(refusal(text.substr(0, length)), "") << length;
  }
}

TEST(PlanJson, ChangedBytesAreReadOrRefusedAndNothingElse) {
  std::mt19937 random(11);
  const std::string text = print_plan(make_plan());
  int refused = 0;
  for (std::size_t round = 0; round < 3000; round += ZF_FEWER) {
    std::string broken = text;
    for (unsigned i = 0; i <= random() % 3; ++i)
      broken[random() % broken.size()] = static_cast<char>(random());
    refused += !refusal(broken).empty();
  }
  EXPECT_GT(refused, 1500 / static_cast<int>(ZF_FEWER));
}

class PlanFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "zf-plan-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(PlanFile, LoadsWhatItSaved) {
  save_plan(make_plan(), folder_ / "plan.json");
  EXPECT_EQ(load_plan(folder_ / "plan.json"), make_plan());
}

TEST_F(PlanFile, NamesTheFileThatItCannotRead) {
  for (const auto& path : {folder_, folder_ / "absent.json"}) {
    try {
      load_plan(path);
      FAIL() << path << " was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::usage);
      EXPECT_THAT(error.what(), HasSubstr(path.string()));
    }
  }
}

TEST_F(PlanFile, SaysHowToMakeOneThatIsNotThere) {
  const auto path = (folder_ / "absent.json").string();
  try {
    load_plan(path);
    FAIL() << path << " was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(),
              path + ": No such file or directory; make a plan with zf-tune tune, or name another file");
  }
}

TEST_F(PlanFile, WhatIsDoneBeforeItTakesItsNameMayRefuseIt) {
  const auto path = folder_ / "plan.json";
  bool was_there = true;
  save_plan(make_plan(), path, [&] { was_there = std::filesystem::exists(path); });
  EXPECT_FALSE(was_there);
  Plan other = make_plan();
  other.made.host = "other";
  EXPECT_THROW(save_plan(other, path, [] { throw Error(Exit::runtime_error, "no"); }), Error);
  EXPECT_EQ(load_plan(path), make_plan());
  std::vector<std::filesystem::path> left(std::filesystem::directory_iterator(folder_), {});
  EXPECT_EQ(left.size(), 1U);
}

TEST_F(PlanFile, AnUnsoundPlanIsNeverWritten) {
  Plan plan = make_plan();
  plan.ranks[0].optimizer.cpus = {};
  EXPECT_THROW(save_plan(plan, folder_ / "plan.json"), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace zf
