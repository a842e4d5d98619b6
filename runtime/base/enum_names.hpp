// The names of an enum's values in files, options and messages: one table beside the enum, read both ways.
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

/// Returns the name of a value. Precondition: the table has the value.
template <NamedEnum Enum>
constexpr const char* name_of(Enum value) {
  const auto& names = kEnumNames<Enum>;
  const auto* const found =
      std::find_if(names.begin(), names.end(), [&](const auto& entry) { return entry.value == value; });
  assert(found != names.end());
  return found->name;
}

/// Returns the value with this name; nothing if there is none.
template <NamedEnum Enum>
constexpr std::optional<Enum> value_named(std::string_view name) {
  for (const auto& entry : kEnumNames<Enum>) {
    if (entry.name == name) return entry.value;
  }
  return std::nullopt;
}

/// Returns all names for messages, as "a, b, c" or with other separators: all_names<E>(", ", " or ") gives
/// "a, b or c".
template <NamedEnum Enum>
std::string all_names(std::string_view separator = ", ", std::string_view last_separator = {}) {
  const auto& names = kEnumNames<Enum>;
  std::string text = names.front().name;
  for (std::size_t i = 1; i < names.size(); ++i) {
    text += i + 1 == names.size() && !last_separator.empty() ? last_separator : separator;
    text += names[i].name;
  }
  return text;
}

}  // namespace zf
