// Tests where memory of ours lies under a policy that others have set, and which policy is ours.
#include "plan/given_policy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cpu_list.hpp"
#include "plan/process_binding.hpp"

namespace zf {
namespace {

NodeSet nodes(const char* list) { return parse_node_list(list, "test"); }

Environment with_line(const std::string& line) {
  return Environment(std::map<std::string, std::string>{{"ZF_BINDING", line}});
}

OptimizerSide side(const char* mems, MemoryPolicy policy = MemoryPolicy::preferred) {
  return {parse_cpu_list("4-7", "test"), nodes(mems), policy};
}

TEST(GivenPolicy, MemoryLiesOnThePlansNodesWithinThePolicysElseOnThose) {
  EXPECT_EQ(nodes_under(nodes("0"), {GivenPolicy::interleave, nodes("0-1")}), nodes("0"));
  EXPECT_EQ(nodes_under(nodes("0-1"), {GivenPolicy::bind, nodes("1-2")}), nodes("1"));
  EXPECT_EQ(nodes_under(nodes("0"), {GivenPolicy::bind, nodes("2-3")}), nodes("2-3"));
  EXPECT_EQ(nodes_under(nodes("0"), {GivenPolicy::local, {}}), nodes("0"));
}

TEST(GivenPolicy, NoFullNodeMakesMemoryLeaveABoundSetOrEndsTheProcess) {
  EXPECT_EQ(side_under(side("0"), {GivenPolicy::bind, nodes("0-1")}), side("0-1", MemoryPolicy::bind));
  EXPECT_EQ(side_under(side("0"), {GivenPolicy::interleave, nodes("0-1")}), side("0"));
  EXPECT_EQ(side_under(side("0", MemoryPolicy::bind), {GivenPolicy::bind, nodes("0-1")}),
            side("0", MemoryPolicy::bind))
      << "the plan wants it so";
  EXPECT_EQ(side_under(side("0-1", MemoryPolicy::none), {GivenPolicy::bind, nodes("1")}),
            side("", MemoryPolicy::none))
      << "no policy is set, so the one that was set holds";
}

TEST(GivenPolicy, ThePreferenceThatABindingNamesIsOurs) {
  ProcessBinding binding;
  binding.rank.home = {parse_cpu_list("0-7", "test"), 8};
  binding.rank.training = {parse_cpu_list("0-3", "test"), 4};
  binding.rank.optimizer = side("0-1");
  const auto is_ours = [&](const ThreadPolicy& policy) {
    return is_named_by_binding(policy, with_line(print_binding(binding)));
  };
  EXPECT_TRUE(is_ours({GivenPolicy::preferred, nodes("0-1")}));
  EXPECT_TRUE(is_ours({GivenPolicy::preferred, nodes("0")})) << "kernels before 5.15 take one node";
  EXPECT_FALSE(is_ours({GivenPolicy::preferred, nodes("1")}));
  EXPECT_FALSE(is_ours({GivenPolicy::bind, nodes("0-1")}));
  EXPECT_FALSE(is_ours({GivenPolicy::local, {}}));
  EXPECT_FALSE(is_named_by_binding({GivenPolicy::preferred, nodes("0")}, Environment()));
  EXPECT_FALSE(is_named_by_binding({GivenPolicy::preferred, nodes("0")}, with_line("broken")));
  binding.kept = ThreadPolicy{GivenPolicy::preferred, nodes("0-1")};
  EXPECT_FALSE(is_ours({GivenPolicy::preferred, nodes("0-1")})) << "exec has kept it, and has set none";
}

TEST(GivenPolicy, IsNamedInWords) {
  EXPECT_EQ(in_words({GivenPolicy::bind, nodes("0-1")}), "bind on nodes 0-1");
  EXPECT_EQ(in_words({GivenPolicy::local, {}}), "local");
}

}  // namespace
}  // namespace zf
