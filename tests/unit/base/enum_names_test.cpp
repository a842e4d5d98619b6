#include "base/enum_names.hpp"

#include <gtest/gtest.h>

namespace zf {
namespace {

enum class Unnamed { a };
enum class Fruit { fig, plum, sour_cherry };
enum class LastForgotten { a, b, c2 };
enum class FirstForgotten { a, b };
enum class Twice { a, b };

}  // namespace

template <>
inline constexpr auto kEnumNames<Fruit> = std::to_array<EnumName<Fruit>>(
    {{Fruit::fig, "fig"}, {Fruit::plum, "plum"}, {Fruit::sour_cherry, "sour-cherry"}});
template <>
inline constexpr auto kEnumNames<LastForgotten> =
    std::to_array<EnumName<LastForgotten>>({{LastForgotten::a, "a"}, {LastForgotten::b, "b"}});
template <>
inline constexpr auto kEnumNames<FirstForgotten> =
    std::to_array<EnumName<FirstForgotten>>({{FirstForgotten::b, "b"}});
template <>
inline constexpr auto kEnumNames<Twice> = std::to_array<EnumName<Twice>>({{Twice::a, "a"}, {Twice::a, "b"}});

namespace {

static_assert(NamedEnum<Fruit> && !NamedEnum<Unnamed> && !NamedEnum<int>);
static_assert(std::string_view(name_of(Fruit::sour_cherry)) == "sour-cherry", "known when it is compiled");
static_assert(is_complete<Fruit>(), "every value is there");
static_assert(!is_complete<LastForgotten>() && !is_complete<FirstForgotten>() && !is_complete<Twice>());

TEST(EnumNames, EveryNameIsReadBackAsItsValue) {
  for (const Fruit fruit : {Fruit::fig, Fruit::plum, Fruit::sour_cherry})
    EXPECT_EQ(value_named<Fruit>(name_of(fruit)), fruit);
}

TEST(EnumNames, AnythingElseIsNoValue) {
  for (const char* name : {"", "Fig", "figs", "sour_cherry"}) EXPECT_FALSE(value_named<Fruit>(name)) << name;
}

TEST(EnumNames, MessagesListThemInTheOrderOfTheTable) {
  EXPECT_EQ(all_names<Fruit>(), "fig, plum, sour-cherry");
  EXPECT_EQ(all_names<Fruit>(", ", " or "), "fig, plum or sour-cherry");
}

}  // namespace
}  // namespace zf
