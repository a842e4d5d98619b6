// The fields of a plan stand in three places: the structs, fields() and configs/plan.schema.json. A field
// that is missing in one of them, or differs, fails here.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "base/cpu_list.hpp"
#include "os/file.hpp"
#include "plan/plan_fields.hpp"

namespace zf {
namespace {

using nlohmann::json;

/// Converts to the type of any member. (An optional takes it by its own constructor.)
struct AnyMember {
  template <class Member>
  requires(!kIsOptional<Member>) operator Member() const;
};

/// Returns how many members an aggregate has.
template <class Struct, class... Members>
consteval std::size_t member_count() {
  if constexpr (requires { Struct{Members{}..., AnyMember{}}; }) {
    return member_count<Struct, Members..., AnyMember>();
  } else {
    return sizeof...(Members);
  }
}

/// Returns how many keys a struct has if each member is one. The times of a sample lie in the sample's own
/// object.
template <class Struct>
constexpr std::size_t expected_keys() {
  if constexpr (std::same_as<Struct, Sample>) {
    return member_count<Sample>() - 1 + member_count<SplitSample>();
  } else {
    return member_count<Struct>();
  }
}

/// The io of fields() that compares them with the schema of their object.
class SchemaWalker {
 public:
  SchemaWalker(const json& root, const json& object, std::string path)
      : root_(root), object_(object), path_(std::move(path)) {
    EXPECT_EQ(object.value("type", ""), "object") << path_;
    EXPECT_EQ(object.value("additionalProperties", true), false) << path_;
    for (const json& key : object.at("required")) required_.insert(key.get<std::string>());
    for (const auto& [key, ignored] : object.at("properties").items()) properties_.insert(key);
    if (path_ == ".workload.training") {  // what only the former format has
      properties_.erase("copy_bytes");
      for (const json& key : object.at("oneOf").at(0).at("required"))
        required_.insert(key.get<std::string>());
    }
  }

  template <class Value, class Rule = Any>
  void required(const std::string& key, const Value& member, Rule rule = {}) {
    visit(key, member, rule, true);
  }
  template <class Value, class Rule = Any>
  void added(const std::string& key, const Value& member, Rule rule = {}) {
    visit(key, member, rule, false);
  }
  template <class Value, class Rule = Any>
  void optional(const std::string& key, const Value& member, Rule rule = {}, const Value& absent = {}) {
    EXPECT_EQ(member, absent) << path_ << "." << key << ": without the field it is read as another value";
    visit(key, member, rule, false);
  }

  template <class Struct>
  void finish() {
    EXPECT_TRUE(properties_.empty()) << path_ << ": fields() lacks " << *properties_.begin();
    EXPECT_EQ(visited_, expected_keys<Struct>()) << path_ << ": a member is no field";
  }

  template <class Value, class Rule>
  static void compare(const json& root, const json& found, const std::string& path, const Value& value,
                      Rule given);

 private:
  template <class Value, class Rule>
  void visit(const std::string& key, const Value& member, Rule rule, bool required) {
    ++visited_;
    const std::string path = path_ + "." + key;
    ASSERT_EQ(properties_.erase(key), 1U) << path << ": the schema lacks it";
    EXPECT_EQ(required_.contains(key), required) << path;
    compare(root_, object_.at("properties").at(key), path, member, rule);
  }

  const json& root_;
  const json& object_;
  std::string path_;
  std::set<std::string> required_;
  std::set<std::string> properties_;  ///< not visited yet
  std::size_t visited_ = 0;
};

/// Compares one bound of a number, which is absent if it is infinite.
void compare_bound(const json& schema, const char* included, const char* excluded, bool is_excluded,
                   double bound, const std::string& path) {
  EXPECT_FALSE(schema.contains(is_excluded ? included : excluded)) << path;
  const char* const key = is_excluded ? excluded : included;
  ASSERT_EQ(schema.contains(key), std::isfinite(bound)) << path << ": " << key;
  EXPECT_EQ(schema.value(key, bound), bound) << path;
}

template <class Enum>
json names() {
  json list = json::array();
  for (const auto& entry : kEnumNames<Enum>) list.push_back(entry.name);
  return list;
}

template <class Value, class Rule>
void SchemaWalker::compare(const json& root, const json& found, const std::string& path, const Value& value,
                           Rule given) {
  const auto rule = rule_for<Value>(given);
  const std::string reference = found.value("$ref", "");
  const json& schema = reference.empty() ? found : root.at(json::json_pointer(reference.substr(1)));
  const std::string type = schema.value("type", "");
  if constexpr (kIsOptional<Value>) {
    compare(root, found, path, typename Value::value_type{}, given);
  } else if constexpr (std::same_as<Rule, Word>) {
    EXPECT_EQ(schema.at("enum"), json::array({given.word})) << path;
  } else if constexpr (NamedEnum<Value>) {
    EXPECT_EQ(schema.at("enum"), names<Value>()) << path;
  } else if constexpr (std::same_as<Value, bool>) {
    EXPECT_EQ(type, "boolean") << path;
  } else if constexpr (std::integral<Value>) {
    EXPECT_EQ(type, "integer") << path;
    EXPECT_EQ(schema.value("minimum", json()), json(rule.template low_of<Value>())) << path;
    EXPECT_EQ(schema.value("maximum", json()), json(rule.template high_of<Value>())) << path;
  } else if constexpr (std::floating_point<Value>) {
    EXPECT_EQ(type, "number") << path;
    if (path.ends_with("pt_reserved_cores_perc")) return;  // follows from the counts
    compare_bound(schema, "minimum", "exclusiveMinimum", rule.ends != Real::Ends::included, rule.low, path);
    compare_bound(schema, "maximum", "exclusiveMaximum", rule.ends == Real::Ends::both_excluded, rule.high,
                  path);
  } else if constexpr (std::same_as<Value, Node>) {
    EXPECT_EQ(type, "integer") << path;
    EXPECT_EQ(schema.value("maximum", 0), kMaxOsIndex) << path;
  } else if constexpr (std::same_as<Value, CpuSet> || std::same_as<Value, NodeSet>) {
    const bool may_be_empty = !std::same_as<Rule, NotEmpty>;
    EXPECT_EQ(reference, std::string("#/definitions/") + (std::same_as<Value, CpuSet> ? "cpu" : "node") +
                             "_list" + (may_be_empty ? "_or_empty" : ""))
        << path;
    const std::regex pattern(schema.value("pattern", ""));
    EXPECT_EQ(std::regex_match("", pattern), may_be_empty) << path;
    EXPECT_TRUE(std::regex_match("0,2-3", pattern) && !std::regex_match("2-", pattern)) << path;
  } else if constexpr (std::same_as<Value, std::string>) {
    EXPECT_TRUE(type == "string" || schema.value("const", "") == kPlanSchema) << path;
    EXPECT_EQ(schema.contains("pattern"), (std::same_as<Rule, Shaped>)) << path;
    EXPECT_EQ(schema.value("minLength", 0), (std::same_as<Rule, NotEmpty> ? 1 : 0)) << path;
  } else if constexpr (kIsList<Value>) {
    EXPECT_EQ(type, "array") << path;
    EXPECT_EQ(schema.value("minItems", 0), (std::same_as<Rule, NotEmpty> ? 1 : 0)) << path;
    compare(root, schema.at("items"), path + "[]", typename Value::value_type{}, item_rule(given));
  } else {
    SchemaWalker walker(root, schema, path);
    fields(walker, value);
    walker.template finish<Value>();
  }
}

TEST(PlanSchema, EveryMemberIsAFieldAndInTheSchemaWithItsTypeAndRange) {
  static_assert(member_count<Headroom>() == 2 && member_count<SplitSample>() == 6 &&
                member_count<RankGpu>() == 4);
  const json schema = json::parse(read_text_file(ZF_SOURCE_DIR "/configs/plan.schema.json"));
  SchemaWalker::compare(schema, schema, "", Plan{}, Any{});
}

}  // namespace
}  // namespace zf
