// Reads structs that declare their fields (field_rules.hpp) from JSON. It checks types, keys, names and the
// ranges of whole numbers. What else a rule says, field_check.hpp checks afterwards.
#pragma once

#include <string_view>
#include <utility>

#include "base/cpu_list.hpp"
#include "plan/field_rules.hpp"
#include "plan/json_fields.hpp"

namespace zf {

template <class Value, class Rule = Any>
void read_value(const Field& field, Value& value, Rule given = {});

/// The io of fields() that reads, from an object that may have other fields.
class JsonReader {
 public:
  /// Precondition: what is required is there, as need_keys() says.
  explicit JsonReader(const Field& object) : object_(object) {}

  template <class Value, class Rule = Any>
  void required(std::string_view key, Value& member, Rule rule = {}) {
    read_value(object_[key], member, rule);
  }
  template <class Value, class Rule = Any>
  void optional(std::string_view key, Value& member, Rule rule = {}, const Value& = {}) {
    if (object_.has(key)) required(key, member, rule);
  }

 private:
  const Field& object_;
};

/// The io of fields() that collects the keys.
class KeyCollector {
 public:
  template <class Value, class... Others>
  void required(std::string_view key, const Value&, const Others&...) {
    keys_.all.push_back(key);
  }
  template <class Value, class... Others>
  void optional(std::string_view key, const Value&, const Others&...) {
    keys_.all.push_back(key);
    keys_.may_be_absent.push_back(key);
  }

  Keys keys() && { return std::move(keys_); }

 private:
  Keys keys_;
};

/// Returns the keys of a struct.
template <class Struct>
Keys keys_of() {
  const Struct object{};
  KeyCollector collector;
  fields(collector, object);
  return std::move(collector).keys();
}

/// Reads an object that has the struct's fields and no others.
template <class Struct>
void read_object(const Field& field, Struct& object) {
  static const Keys kKeys = keys_of<Struct>();
  field.need_keys(kKeys);
  JsonReader reader(field);
  fields(reader, object);
}

template <class Value, class Rule>
void read_value(const Field& field, Value& value, Rule given) {
  if constexpr (std::same_as<Rule, Word>) {
    field.need_word(given.word);
    value = true;
  } else if constexpr (kIsOptional<Value>) {
    read_value(field, value.emplace(), given);
  } else if constexpr (kIsList<Value>) {
    value.clear();
    for (const Field& item : field.items()) read_value(item, value.emplace_back(), item_rule(given));
  } else if constexpr (NamedEnum<Value>) {
    value = field.one_of<Value>();
  } else if constexpr (std::same_as<Value, bool>) {
    value = field.boolean();
  } else if constexpr (std::integral<Value>) {
    const Whole rule = rule_for<Value>(given);
    value = field.integer<Value>(rule.low_of<Value>(), rule.high_of<Value>());
  } else if constexpr (std::floating_point<Value>) {
    value = field.number();
  } else if constexpr (std::same_as<Value, std::string>) {
    value = field.text();
  } else if constexpr (std::same_as<Value, CpuSet>) {
    value = field.cpus();
  } else if constexpr (std::same_as<Value, NodeSet>) {
    value = field.nodes();
  } else if constexpr (std::same_as<Value, Node>) {
    value.os_index = field.integer(0, kMaxOsIndex);
  } else {
    read_object(field, value);
  }
}

/// Returns what an object says, for any struct that declares its fields.
template <class Struct>
Struct read_as(const Field& field) {
  Struct object;
  read_object(field, object);
  return object;
}

}  // namespace zf
