// Writes structs that declare their fields (field_rules.hpp) as JSON. It needs nlohmann_json, so headers that
// others use do not include it.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/cpu_list.hpp"
#include "plan/field_rules.hpp"
#include "plan/json_fields.hpp"

namespace zf {

template <class Value, class Rule = Any>
Object json_of(const Value& value, Rule rule = {});

/// The io of fields() that writes: adds the fields to an object, which may have others.
class JsonWriter {
 public:
  explicit JsonWriter(Object& object) : object_(object) {}

  template <class Value, class Rule = Any>
  void required(const char* key, const Value& member, Rule rule = {}) {
    object_[key] = json_of(member, rule);
  }
  template <class Value, class Rule = Any>
  void optional(const char* key, const Value& member, Rule rule = {}, const Value& absent = {}) {
    if (member != absent) required(key, member, rule);
  }

 private:
  Object& object_;
};

/// Returns a value as JSON. Precondition: an optional has a value.
template <class Value, class Rule>
Object json_of(const Value& value, Rule rule) {
  if constexpr (std::same_as<Rule, Word>) {
    return rule.word;
  } else if constexpr (kIsOptional<Value>) {
    return json_of(*value, rule);
  } else if constexpr (kIsList<Value>) {
    Object list = Object::array();
    for (const auto& item : value) list.push_back(json_of(item, item_rule(rule)));
    return list;
  } else if constexpr (NamedEnum<Value>) {
    return name_of(value);
  } else if constexpr (std::same_as<Value, CpuSet> || std::same_as<Value, NodeSet>) {
    return print(value);
  } else if constexpr (std::same_as<Value, Node>) {
    return value.os_index;
  } else if constexpr (Leaf<Value>) {
    return value;
  } else {
    Object object = Object::object();
    JsonWriter writer(object);
    fields(writer, value);
    return object;
  }
}

}  // namespace zf
