// Tests that every field of a plan that was written is read back.
#include <gtest/gtest.h>

#include <set>

#include "base/cpu_list.hpp"
#include "make_plan.hpp"
#include "plan/json_reader.hpp"
#include "plan/json_writer.hpp"
#include "plan/plan_fields.hpp"

namespace zf {
namespace {

/// Returns a full plan: every field that may be left out is there.
Plan full_plan() {
  Plan plan = make_plan();
  plan.workload.step_factor = 1.5;
  TrainingDemand& demand = *plan.workload.training;
  demand.parallel_ns = 7;
  demand.first_group_share = demand.last_forward_share = 0.125;
  demand.last_gradient_ns = 9;
  plan.intent.for_deepspeed = plan.intent.isolated = plan.intent.own_cpus = true;
  const RankGpu gpu{"0000:3b:00.0", Node{1}, parse_cpu_list("31-38", "test"), 3, "GPU-3b", 2};
  plan.ranks[1].gpu = plan.ranks[1].spread_gpu = gpu;
  plan.ranks[1].more_gpus = {gpu};
  plan.intent.gpus_per_rank = plan.intent.ranks_per_gpu = 2;  // invariants do not matter here
  plan.gpus = GpuPlaces{"0123456789abcdef", {{"10de:2330", 2, Node{1}}}};
  plan.choice.headroom = Headroom{1.5, 2.25};
  plan.allocation.shared_cpus = true;
  plan.ranks[1].optimizer.threads = 4;
  plan.evidence.estimate_round = 1;
  return plan;
}

/// Gives a value that its type can have to every field, one after the other.
class OneChanged {
 public:
  /// Changes the field that comes after `before` others.
  explicit OneChanged(int before) : left_(before) {}

  template <class Value, class... Rules>
  void required(const char* key, Value& member, const Rules&...) {
    key_ = left_ >= 0 ? key : key_;
    visit(member);
  }
  template <class Value, class... Rules>
  void optional(const char* key, Value& member, const Rules&...) {
    required(key, member);
  }

  bool done() const { return left_ < 0; }
  const char* key() const { return key_; }

 private:
  template <class Value>
  void visit(Value& value) {
    if constexpr (kIsOptional<Value>) {
      ASSERT_TRUE(value) << key_ << ": full_plan() lacks it";
      visit(*value);
    } else if constexpr (kIsList<Value>) {
      ASSERT_FALSE(value.empty()) << key_ << ": full_plan() lacks it";
      visit(value.back());
    } else if constexpr (!Leaf<Value>) {
      fields(*this, value);
    } else if (left_-- == 0) {
      change(value);
    }
  }

  static void change(bool& value) { value = !value; }
  static void change(double& value) { value = value / 2 + 0.125; }
  static void change(std::string& value) { value += "?"; }
  static void change(CpuSet& value) { value.insert(Pu{60000}); }
  static void change(NodeSet& value) { value.insert(Node{60000}); }
  static void change(Node& value) { ++value.os_index; }
  template <std::integral Integer>
  static void change(Integer& value) {
    ++value;
  }
  template <NamedEnum Enum>
  static void change(Enum& value) {
    const auto& names = kEnumNames<Enum>;
    value = names.front().value == value ? names.back().value : names.front().value;
  }

  int left_;
  const char* key_ = "";
};

TEST(PlanRoundTrip, EveryFieldIsWrittenAndComesBack) {
  Plan plan = full_plan();
  plan.ranks.erase(plan.ranks.begin());  // the other has the GPU
  plan.trial->candidates.erase(plan.trial->candidates.begin());
  std::set<std::string> seen;
  int fields_seen = 0;
  for (;; ++fields_seen) {
    Plan changed = plan;
    OneChanged io(fields_seen);
    fields(io, changed);
    if (!io.done()) break;
    const Object object = json_of(changed);
    const std::string text = print_json(object);
    const JsonDocument document(text, "changed");
    EXPECT_EQ(read_as<Plan>(document.root()), changed) << io.key();
    EXPECT_NE(changed, plan) << io.key();
    EXPECT_TRUE(seen.insert(text).second) << io.key() << " is not written";
  }
  EXPECT_GT(fields_seen, 90);
}

}  // namespace
}  // namespace zf
