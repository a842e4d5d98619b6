// Declares what the value of one field must be. plan_check.hpp checks what must hold between fields.
//
// Each struct of a plan declares its fields once, in a function `fields(io, object)` (plan_fields.hpp). It
// calls a function of the io for each field, in the order in which they are written. What reads, writes or
// checks plans is such an io:
// - required(key, member, rule): the field is always in the file.
// - optional(key, member, rule, absent): the field is left out if the member equals `absent`, which is the
//   member's default: nothing, empty, false or 0 unless said otherwise.
//
// A member that is a struct with fields of its own becomes an object, a vector becomes a list, and a named
// enum its name.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/enum_names.hpp"
#include "base/id_set.hpp"

namespace zf {

/// `Struct` is `Plain`, or a const one.
template <class Struct, class Plain>
concept MaybeConst = std::same_as<std::remove_const_t<Struct>, Plain>;

/// Says in words what is wrong with a value. Empty if nothing is.
using Complaint = std::string;

/// A whole number from `low` to `high`, or to the largest that the member holds. The rule of every integer
/// that has no other.
struct Whole {
  std::uint64_t low = 0;
  std::uint64_t high = std::numeric_limits<std::uint64_t>::max();

  template <std::integral Integer>
  Integer low_of() const {
    return static_cast<Integer>(low);
  }
  template <std::integral Integer>
  Integer high_of() const {
    constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<Integer>::max());
    return static_cast<Integer>(high < kLargest ? high : kLargest);
  }
  Complaint complaint(int value) const;
  Complaint complaint(std::int64_t value) const;
  Complaint complaint(std::uint64_t value) const;
};

/// A finite number from `low` to `high`. An end that is excluded is no value itself.
struct Real {
  enum class Ends { included, low_excluded, both_excluded };

  double low = 0;
  double high = std::numeric_limits<double>::infinity();
  Ends ends = Ends::included;
  Complaint complaint(double value) const;
};

/// Any finite number: the rule of every number that has no other.
inline constexpr Real kAnyReal{-std::numeric_limits<double>::infinity()};

/// A text with the shape of a class's fingerprint or of "2026-11-20T21:00:00Z".
enum class TextShape { fingerprint, utc_time };
struct Shaped {
  TextShape shape;
  Complaint complaint(std::string_view text) const;
};

/// A text, list or set that has something in it. `why` goes on where the complaint "is empty" ends.
struct NotEmpty {
  const char* why = "";
  template <class Container>
  Complaint complaint(const Container& container) const {
    return container.empty() ? std::string("is empty") + why : "";
  }
};

/// A list in which each item keeps a rule.
template <class Rule>
struct Each {
  Rule rule;
};
template <class Rule>
Each(Rule) -> Each<Rule>;  // clang finds it by itself from version 17 on

/// A bool that is written as this word if it is true, and is false where the field is left out.
struct Word {
  const char* word;
};

/// No rule but that of the type.
struct Any {};

/// Returns the rule for a value: the one that was given, or that of the type.
template <class Value, class Rule>
constexpr auto rule_for(Rule rule) {
  constexpr bool kIsGiven = !std::same_as<Rule, Any>;
  if constexpr (!kIsGiven && std::integral<Value> && !std::same_as<Value, bool>) {
    return Whole{};
  } else if constexpr (!kIsGiven && std::floating_point<Value>) {
    return kAnyReal;
  } else {
    return rule;
  }
}

/// Returns the rule for the items of a list with this rule.
template <class Rule>
constexpr Any item_rule(Rule) {
  return {};
}
template <class Rule>
constexpr Rule item_rule(Each<Rule> list) {
  return list.rule;
}

template <class Value>
inline constexpr bool kIsOptional = false;
template <class Value>
inline constexpr bool kIsOptional<std::optional<Value>> = true;

template <class Value>
inline constexpr bool kIsList = false;
template <class Item>
inline constexpr bool kIsList<std::vector<Item>> = true;

/// A value that is not made of others.
template <class Value>
concept Leaf = std::is_arithmetic_v<Value> || std::is_enum_v<Value> || std::same_as<Value, std::string> ||
    std::same_as<Value, CpuSet> || std::same_as<Value, NodeSet> || std::same_as<Value, Node>;

}  // namespace zf
