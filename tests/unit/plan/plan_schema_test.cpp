// The fields of a plan stand in three places: the structs, fields() and configs/plan.schema.json. A field
// that is missing in one of them, or differs, fails here.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "base/cpu_list.hpp"
#include "os/file.hpp"
#include "paths.hpp"
#include "plan/plan_fields.hpp"

namespace zf {
namespace {

using nlohmann::json;

/// Converts to the type of any member. (An optional takes it by its own constructor.)
struct AnyMember {
  template <class Member>
  requires(!kIsOptional<Member>) operator Member() const { return Member(); }
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

/// Both say it for each member, and need not know its type: GoogleTest compiles no printer for it then.
void expect(bool holds, const std::string& path, const std::string& otherwise) {
  EXPECT_TRUE(holds) << path << ": " << otherwise;
}
void expect_equal(const json& found, const json& wanted, const std::string& path) {
  EXPECT_EQ(found, wanted) << path;
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
  }

  template <class Value, class Rule = Any>
  void required(const std::string& key, const Value& member, Rule rule = {}) {
    visit(key, member, rule, true);
  }
  template <class Value, class Rule = Any>
  void optional(const std::string& key, const Value& member, Rule rule = {}, const Value& absent = {}) {
    expect(member == absent, path_ + "." + key, "without the field it is read as another value");
    visit(key, member, rule, false);
  }

  template <class Struct>
  void finish() {
    finish(expected_keys<Struct>());
  }

  template <class Value, class Rule>
  static void compare(const json& root, const json& found, const std::string& path, const Value& value,
                      Rule given);

 private:
  template <class Value, class Rule>
  void visit(const std::string& key, const Value& member, Rule rule, bool required) {
    if (const json* const schema = visited(key, required))
      compare(root_, *schema, path_ + "." + key, member, rule);
  }

  /// Returns the schema of a field, nothing if there is none.
  const json* visited(const std::string& key, bool required) {
    ++visited_;
    const bool is_known = properties_.erase(key) == 1;
    expect(is_known, path_ + "." + key, "the schema lacks it");
    expect(required_.contains(key) == required, path_ + "." + key, "only one of both requires it");
    return is_known ? &object_.at("properties").at(key) : nullptr;
  }

  void finish(std::size_t members) {
    EXPECT_TRUE(properties_.empty()) << path_ << ": fields() lacks " << *properties_.begin();
    EXPECT_EQ(visited_, members) << path_ << ": a member is no field";
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

void compare_bounds(const json& schema, const Real& rule, const std::string& path) {
  if (path.ends_with("pt_reserved_cores_perc")) return;  // follows from the counts
  compare_bound(schema, "minimum", "exclusiveMinimum", rule.ends != Real::Ends::included, rule.low, path);
  compare_bound(schema, "maximum", "exclusiveMaximum", rule.ends == Real::Ends::both_excluded, rule.high,
                path);
}

/// Compares the pattern of a list of CPUs or nodes.
void compare_list(const json& schema, const std::string& reference, const std::string& list,
                  bool may_be_empty, const std::string& path) {
  EXPECT_EQ(reference, "#/definitions/" + list + (may_be_empty ? "_or_empty" : "")) << path;
  const std::regex pattern(schema.value("pattern", ""));
  EXPECT_EQ(std::regex_match("", pattern), may_be_empty) << path;
  EXPECT_TRUE(std::regex_match("0,2-3", pattern) && !std::regex_match("2-", pattern)) << path;
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
    expect_equal(schema.at("enum"), json::array({given.word}), path);
  } else if constexpr (NamedEnum<Value>) {
    expect_equal(schema.at("enum"), names<Value>(), path);
  } else if constexpr (std::same_as<Value, bool>) {
    expect_equal(type, "boolean", path);
  } else if constexpr (std::integral<Value>) {
    expect_equal(type, "integer", path);
    expect_equal(schema.value("minimum", json()), rule.template low_of<Value>(), path);
    expect_equal(schema.value("maximum", json()), rule.template high_of<Value>(), path);
  } else if constexpr (std::floating_point<Value>) {
    expect_equal(type, "number", path);
    compare_bounds(schema, rule, path);
  } else if constexpr (std::same_as<Value, Node>) {
    expect_equal(type, "integer", path);
    expect_equal(schema.value("maximum", 0), kMaxOsIndex, path);
  } else if constexpr (std::same_as<Value, CpuSet> || std::same_as<Value, NodeSet>) {
    const std::string list = std::same_as<Value, CpuSet> ? "cpu_list" : "node_list";
    compare_list(schema, reference, list, !std::same_as<Rule, NotEmpty>, path);
  } else if constexpr (std::same_as<Value, std::string>) {
    expect(type == "string" || schema.value("const", "") == kPlanSchema, path, "is no text");
    expect_equal(schema.contains("pattern"), std::same_as<Rule, Shaped>, path);
    expect_equal(schema.value("minLength", 0), std::same_as<Rule, NotEmpty> ? 1 : 0, path);
  } else if constexpr (kIsList<Value>) {
    expect_equal(type, "array", path);
    expect_equal(schema.value("minItems", 0), std::same_as<Rule, NotEmpty> ? 1 : 0, path);
    compare(root, schema.at("items"), path + "[]", typename Value::value_type{}, item_rule(given));
  } else {
    SchemaWalker walker(root, schema, path);
    fields(walker, value);
    walker.template finish<Value>();
  }
}

TEST(PlanSchema, EveryMemberIsAFieldAndInTheSchemaWithItsTypeAndRange) {
  static_assert(member_count<Headroom>() == 2 && member_count<SplitSample>() == 6 &&
                member_count<RankGpu>() == 6);
  const json schema = json::parse(read_text_file(std::string(kSourceDir) + "/configs/plan.schema.json"));
  SchemaWalker::compare(schema, schema, "", Plan{}, Any{});
}

}  // namespace
}  // namespace zf
