#include "plan/process_binding.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cpu_list.hpp"
#include "base/error.hpp"

namespace zf {
namespace {

using testing::HasSubstr;

ProcessBinding sparse_binding() {
  ProcessBinding binding;
  binding.plan_id = "00c0ffee";
  binding.rank.rank = 1;
  binding.rank.home = {parse_cpu_list("0,4-11,21-26", "test"), 12};
  binding.rank.training = {parse_cpu_list("0,4-11", "test"), 9};
  binding.rank.optimizer = {parse_cpu_list("21-25", "test"), parse_node_list("0-1", "test"),
                            MemoryPolicy::bind};
  binding.framework = Framework::native;
  binding.started_on = StartedOn::home;
  return binding;
}

std::string refusal_of_line(const std::string& line) {
  try {
    parse_binding(line);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(ProcessBinding, ComesBackAsItWasWritten) {
  for (const StartedOn part : {StartedOn::home, StartedOn::training, StartedOn::nothing}) {
    ProcessBinding binding = sparse_binding();
    binding.started_on = part;
    const std::string line = print_binding(binding);
    EXPECT_EQ(parse_binding(line), binding) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
}

TEST(ProcessBinding, ThreadsOfSharedCpusComeBackToo) {
  ProcessBinding binding = sparse_binding();
  EXPECT_EQ(print_binding(binding).find("optimizer_threads"), std::string::npos)
      << "as older versions write it";
  binding.rank.optimizer.threads = 7;
  const std::string line = print_binding(binding);
  EXPECT_EQ(parse_binding(line), binding) << line;
  EXPECT_THAT(refusal_of_line(line.substr(0, line.size() - 1) + "0"),
              HasSubstr("optimizer_threads is \"0\""));
}

TEST(ProcessBinding, AKeptMemoryPolicyComesBackToo) {
  ProcessBinding binding = sparse_binding();
  for (const ThreadPolicy& kept :
       {ThreadPolicy{GivenPolicy::bind, parse_node_list("0-1", "test")}, ThreadPolicy{}}) {
    binding.kept = kept;
    EXPECT_EQ(parse_binding(print_binding(binding)), binding) << print_binding(binding);
  }
  const std::string line = print_binding(sparse_binding());
  EXPECT_THAT(refusal_of_line(line + " kept_policy=hope kept_nodes="), HasSubstr("kept_policy is \"hope\""));
  EXPECT_THAT(refusal_of_line(line + " kept_policy=bind"), HasSubstr("kept_nodes is missing"));
  EXPECT_THAT(refusal_of_line(line + " kept_nodes=1"), HasSubstr("kept_nodes is not known"));
}

TEST(ProcessBinding, WhatSomebodyChangedIsRefusedInWords) {
  const std::string good = print_binding(sparse_binding());
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    return line.replace(line.find(from), from.size(), to);
  };
  EXPECT_THAT(refusal_of_line(""), HasSubstr("does not begin with zf-binding/1"));
  EXPECT_THAT(refusal_of_line(changed("zf-binding/1", "zf-binding/9")),
              HasSubstr("does not begin with zf-binding/1"));
  EXPECT_THAT(refusal_of_line(changed(" rank=1", "")), HasSubstr("rank is missing"));
  EXPECT_THAT(refusal_of_line(changed("rank=1", "rank=-1")), HasSubstr("rank is \"-1\""));
  EXPECT_THAT(refusal_of_line(changed("framework=native", "framework=jax")),
              HasSubstr("framework is \"jax\""));
  EXPECT_THAT(refusal_of_line(changed("started_on=home", "started_on=roof")),
              HasSubstr("started_on is \"roof\""));
  EXPECT_THAT(refusal_of_line(changed("training=0,", "training=1,")), HasSubstr("must lie in home"));
  EXPECT_THAT(refusal_of_line(changed("optimizer=21-25", "optimizer=x")), HasSubstr("optimizer"));
  EXPECT_THAT(refusal_of_line(changed("policy=bind", "policy=hope")), HasSubstr("policy is \"hope\""));
  EXPECT_THAT(refusal_of_line(changed("shared=no", "shared=0")), HasSubstr("shared is \"0\""));
  EXPECT_THAT(refusal_of_line(good + " rank=1"), HasSubstr("rank stands there twice"));
  EXPECT_THAT(refusal_of_line(good + " colour=red"), HasSubstr("colour is not known"));
  EXPECT_THAT(refusal_of_line(good + std::string(5000, ' ')), HasSubstr("more than 4096"));
}

TEST(ProcessBinding, TooManyGapsForTheEnvironmentAreRefused) {
  ProcessBinding binding = sparse_binding();
  std::vector<Pu> odd;
  for (int cpu = 1; cpu < 4000; cpu += 2) odd.push_back(Pu{cpu});
  binding.rank.home.cpus = CpuSet(odd);
  EXPECT_THROW(print_binding(binding), Error);
}

TEST(ProcessBinding, BelongsToTheRankThatExecStarted) {
  const std::string line = print_binding(sparse_binding());
  const auto own = [&](std::map<std::string, std::string> variables) {
    variables["ZF_BINDING"] = line;
    return own_binding(Environment(std::move(variables))).has_value();
  };
  EXPECT_TRUE(own({{"ZF_RANK", "1"}}));
  EXPECT_TRUE(own({{"ZF_RANK", "1"}, {"ZF_RANK_FROM", "LOCAL_RANK=1"}, {"LOCAL_RANK", "1"}}));
  EXPECT_FALSE(own({{"ZF_RANK", "1"}, {"ZF_RANK_FROM", ""}, {"LOCAL_RANK", "1"}}))
      << "a launcher under exec has started this process as a rank of its own";
  EXPECT_FALSE(own({{"ZF_RANK", "0"}})) << "the line is of rank 1";
  EXPECT_FALSE(own({})) << "no variable says that this is rank 1";
  EXPECT_FALSE(own_binding(Environment()).has_value());
}

}  // namespace
}  // namespace zf
