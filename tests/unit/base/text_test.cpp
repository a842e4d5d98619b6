#include "base/text.hpp"

#include <gtest/gtest.h>

namespace zf {
namespace {

TEST(Text, ControlCharactersOfOthersAreBlanks) {
  EXPECT_EQ(strip_control_chars("a\x1b[31mb\tc\x7f\nd"), "a [31mb c \nd");
  EXPECT_EQ(strip_control_chars("C1:\u009b2J"), "C1: 2J");
  for (const char* const hidden : {"\u202e", "\u2066", "\u2028", "\u061c", "\u200f", "\ufeff"}) {
    EXPECT_EQ(strip_control_chars(std::string("a") + hidden + "b"), "a b") << hidden;
  }
  EXPECT_EQ(one_line("a\nb"), "a b");
}

TEST(Text, LettersOfAllLanguagesStay) {
  for (const char* const text : {"\u00e9\u00df", "\u4e2d\u6587", "\U0001f600", "\u05d0", "\u2192 \u00b5s"}) {
    EXPECT_EQ(strip_control_chars(text), text);
    EXPECT_EQ(escape_control_chars(text), text);
  }
}

TEST(Text, WordsAreEnumeratedAsInASentence) {
  EXPECT_EQ(enumerated({"A"}), "A");
  EXPECT_EQ(enumerated({"A", "B"}), "A and B");
  EXPECT_EQ(enumerated({"A", "B", "C"}), "A, B and C");
}

TEST(Text, BytesThatAreNoUtf8AreQuestionMarks) {
  EXPECT_EQ(strip_control_chars("a\xff\xfe"), "a??");
  EXPECT_EQ(strip_control_chars("\xc0\x9b"), "??") << "an overlong escape";
  EXPECT_EQ(strip_control_chars("\xed\xa0\x80"), "???") << "half of a pair of UTF-16";
  EXPECT_EQ(strip_control_chars("\xe4\xb8"), "??") << "cut off";
}

TEST(Text, ANounIsSingularOrPlural) {
  EXPECT_EQ(print_count(1, "core"), "1 core");
  EXPECT_EQ(print_count(0, "core"), "0 cores");
  EXPECT_EQ(print_count(std::size_t{2}, "core"), "2 cores");
}

TEST(Text, VeryLongLinesAreCutBetweenLetters) {
  EXPECT_EQ(one_line(std::string(kLongestLine, 'x')), std::string(kLongestLine, 'x'));
  std::string accents;
  while (accents.size() < 100'000) accents += "\u00e9";
  const std::string cut = one_line(accents);
  EXPECT_LE(cut.size(), kLongestLine);
  EXPECT_TRUE(cut.ends_with("\u00e9..."));
}

TEST(Text, JsonKeepsItsMeaning) {
  EXPECT_EQ(escape_control_chars("{\"a\": \"\u202e\u009b\"}\n"), "{\"a\": \"\\u202e\\u009b\"}\n");
}

}  // namespace
}  // namespace zf
