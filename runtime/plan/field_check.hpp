// Checks each field of a struct by its rule, whether the struct was read or is about to be written.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "plan/field_rules.hpp"
#include "plan/violation.hpp"

namespace zf {

/// Returns the first field with a value that breaks its rule; nothing if there is none.
template <class Value, class Rule = Any>
std::optional<Violation> check_fields(const Value& value, Rule given = {});

/// The io of fields() that checks.
class FieldChecker {
 public:
  template <class Value, class Rule = Any>
  void required(std::string_view key, const Value& member, Rule rule = {}) {
    if (found_) return;
    found_ = check_fields(member, rule);
    if (found_) found_->field = below(key, found_->field);
  }
  template <class Value, class Rule = Any>
  void optional(std::string_view key, const Value& member, Rule rule = {}, const Value& absent = {}) {
    if (member != absent) required(key, member, rule);
  }

  std::optional<Violation> found() && { return std::move(found_); }

  /// Returns the path of `field` inside the member `key`.
  static std::string below(std::string_view key, std::string_view field) {
    std::string path(key);
    if (!field.empty() && field.front() != '[') path += '.';
    return path.append(field);
  }

 private:
  std::optional<Violation> found_;
};

template <class Value, class Rule>
std::optional<Violation> check_fields(const Value& value, Rule given) {
  const auto rule = rule_for<Value>(given);
  if constexpr (requires { rule.complaint(value); }) {
    if (Complaint what = rule.complaint(value); !what.empty()) return Violation{"", std::move(what)};
  }
  if constexpr (kIsOptional<Value>) {
    return value ? check_fields(*value, given) : std::nullopt;
  } else if constexpr (kIsList<Value>) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (auto found = check_fields(value[i], item_rule(given))) {
        found->field = FieldChecker::below("[" + std::to_string(i) + "]", found->field);
        return found;
      }
    }
    return std::nullopt;
  } else if constexpr (Leaf<Value>) {
    return std::nullopt;
  } else {
    FieldChecker checker;
    fields(checker, value);
    return std::move(checker).found();
  }
}

}  // namespace zf
