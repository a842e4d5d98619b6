// Reads the fields of our JSON documents, so that every error names its field. It needs nlohmann_json, so
// headers that others use do not include it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/id_set.hpp"

namespace zf {

/// Parses untrusted text: UTF-8, at most 16 levels deep, no key twice in an object. Throws Error(usage)
/// "name: line 3, column 5: …".
nlohmann::json parse_json(std::string_view text, std::string_view name);

/// A value and its path in the document. Every function below throws Error(usage) "name: path: what; next".
class Field {
 public:
  Field(const nlohmann::json& value, std::string path, std::string_view name)
      : value_(&value), path_(std::move(path)), name_(name) {}

  /// Checks that this is an object with these keys and no others. Those in `may_be_absent` may be missing.
  const Field& object(std::initializer_list<std::string_view> keys,
                      std::initializer_list<std::string_view> may_be_absent = {}) const;
  /// Checks that this is an object whose "schema" is `wanted`. Call it before all other checks: a file of
  /// another kind or version has other fields, and the user should be told why.
  const Field& schema(std::string_view wanted) const;
  bool has(std::string_view key) const { return value_->contains(key); }
  /// Returns a member. Precondition: object() was called with this key, and it is present.
  Field operator[](std::string_view key) const;
  /// Returns the elements of a list.
  std::vector<Field> items() const;

  std::string text() const;
  bool boolean() const;
  /// Returns a whole number from `low` to `high`, both included.
  template <class Integer>
  Integer integer(Integer low, Integer high = std::numeric_limits<Integer>::max()) const;
  double number() const;
  CpuSet cpus() const;
  NodeSet nodes() const;
  /// Returns the position of this text in `names`.
  std::size_t one_of(std::initializer_list<std::string_view> names) const;

  [[noreturn]] void fail(std::string_view what) const;

 private:
  Field child(const nlohmann::json& value, std::string_view key) const;
  /// Returns the value as one short line for a message.
  std::string shown() const;
  [[noreturn]] void fail_range(std::string_view low, std::string_view high) const;

  const nlohmann::json* value_;
  std::string path_;
  std::string_view name_;
};

template <class Integer>
Integer Field::integer(Integer low, Integer high) const {
  if (value_->is_number_unsigned()) {
    const auto value = value_->get<std::uint64_t>();
    if (std::cmp_greater_equal(value, low) && std::cmp_less_equal(value, high))
      return static_cast<Integer>(value);
  } else if (value_->is_number_integer()) {
    const auto value = value_->get<std::int64_t>();
    if (std::cmp_greater_equal(value, low) && std::cmp_less_equal(value, high))
      return static_cast<Integer>(value);
  } else {
    fail("is " + shown() + ", not a whole number");
  }
  fail_range(std::to_string(low), std::to_string(high));
}

}  // namespace zf
