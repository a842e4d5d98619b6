// The names of an enum's values in files, options and messages: one table beside the enum, read both ways.
// The enum counts from 0, and a table that forgets a value does not compile where it is used.
//
//   enum class Placement { compact, spread };
//   template <>
//   inline constexpr auto kEnumNames<Placement> =
//       std::to_array<EnumName<Placement>>({{Placement::compact, "compact"}, {Placement::spread, "spread"}});
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace zf {

template <class Enum>
struct EnumName {
  Enum value;
  const char* name;
};

/// The table of an enum: an entry for every value, in the order in which messages list them.
template <class Enum>
inline constexpr std::array<EnumName<Enum>, 0> kEnumNames{};

/// An enum that has a table.
template <class Enum>
concept NamedEnum = !kEnumNames<Enum>.empty();

/// Returns true if the value is an enumerator. Compilers print one by its name, and any other value as
/// "(Enum)4": only then the last parenthesis is before a digit. A compiler that prints something else makes
/// all values enumerators, so no table compiles.
template <auto value>
consteval bool is_enumerator() {
  const std::string_view printed = __PRETTY_FUNCTION__;
  const char next = printed[printed.rfind(')') + 1];
  return next < '0' || next > '9';
}

/// Returns true if the table has every value.
template <NamedEnum Enum>
consteval bool is_complete() {
  const auto& names = kEnumNames<Enum>;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto has_value = [&](const auto& entry) { return entry.value == static_cast<Enum>(i); };
    if (std::none_of(names.begin(), names.end(), has_value)) return false;
  }
  return !is_enumerator<static_cast<Enum>(kEnumNames<Enum>.size())>();
}

/// Returns the table.
template <NamedEnum Enum>
constexpr const auto& names_of() {
  static_assert(is_complete<Enum>(), "kEnumNames<Enum> lacks a value of the enum, or has one twice");
  return kEnumNames<Enum>;
}

/// Returns the name of a value. Precondition: it is an enumerator.
template <NamedEnum Enum>
constexpr const char* name_of(Enum value) {
  const auto& names = names_of<Enum>();
  const auto* const found =
      std::find_if(names.begin(), names.end(), [&](const auto& entry) { return entry.value == value; });
  assert(found != names.end());
  return found->name;
}

/// Returns the value with this name; nothing if there is none.
template <NamedEnum Enum>
constexpr std::optional<Enum> value_named(std::string_view name) {
  for (const auto& entry : names_of<Enum>()) {
    if (entry.name == name) return entry.value;
  }
  return std::nullopt;
}

/// Returns all names for messages, as "a, b, c" or with other separators: all_names<E>(", ", " or ") gives
/// "a, b or c".
template <NamedEnum Enum>
std::string all_names(std::string_view separator = ", ", std::string_view last_separator = {}) {
  const auto& names = names_of<Enum>();
  std::string text = names.front().name;
  for (std::size_t i = 1; i < names.size(); ++i) {
    text += i + 1 == names.size() && !last_separator.empty() ? last_separator : separator;
    text += names[i].name;
  }
  return text;
}

}  // namespace zf
