#include "text/wrap.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "text/table.hpp"

namespace zf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Wrap, LinesBreakAfterBlanksAndCommas) {
  EXPECT_THAT(broken("one two three", 7), ElementsAre("one two", "three"));
  EXPECT_THAT(broken("0-3,8-11,16-19", 9), ElementsAre("0-3,8-11,", "16-19"));
  EXPECT_THAT(broken("averylongword end", 5), ElementsAre("averylongword", "end"));
  EXPECT_THAT(broken("", 5), ElementsAre(""));
}

TEST(Wrap, AWordThatIsTooLongBreaksAfterItsBars) {
  EXPECT_THAT(broken("--for numactl|slurm|env", 14), ElementsAre("--for", "numactl|slurm|", "env"));
  EXPECT_THAT(broken("a | b", 80), ElementsAre("a | b"));
}

TEST(Wrap, ALettersBytesAreOneColumn) {
  EXPECT_EQ(columns_of(""), 0U);
  EXPECT_EQ(columns_of("\u2212 5 \u00b5s"), 6U);
  EXPECT_THAT(broken("\u2212\u2212\u2212 \u00b5\u00b5", 6), ElementsAre("\u2212\u2212\u2212 \u00b5\u00b5"));
  EXPECT_THAT(broken("\u2212\u2212\u2212 \u00b5\u00b5", 5),
              ElementsAre("\u2212\u2212\u2212", "\u00b5\u00b5"));
}

TEST(Wrap, LinesOfATextAreWrappedEachForItself) {
  EXPECT_EQ(wrapped("one two three\nfour\n", 9), "one two\n  three\nfour\n");
  EXPECT_EQ(wrapped("one", 9), "one\n");
  EXPECT_EQ(wrapped("a\n\nb\n", 9), "a\n\nb\n");
  EXPECT_EQ(wrapped("", 9), "");
}

TEST(Wrap, LinesHangBelowTheirLead) {
  EXPECT_EQ(hanging("Why: ", "it is the fastest", 12), "Why: it is\n     the\n     fastest\n");
  EXPECT_EQ(hanging("Note: ", "short", 80), "Note: short\n");
}

TEST(Wrap, ASentenceEndsBeforeACapitalOrADigit) {
  EXPECT_THAT(sentences("It took 1.5 ms. No other did. 4 cores train"),
              ElementsAre("It took 1.5 ms.", "No other did.", "4 cores train"));
  EXPECT_THAT(sentences("ends with a stop."), ElementsAre("ends with a stop."));
}

Table table() {
  Table table({{"split", Table::Align::left},
               {.title = "pool threads", .short_title = "pool"},
               {.title = "detail", .need = Table::Need::detail}});
  table.add({"pool 4, spread, all siblings", "4", "0.98"});
  return table;
}

TEST(TableWidth, AWholeTableIsPrintedWhereItFits) {
  EXPECT_EQ(table().print(80), table().print());
  EXPECT_THAT(table().print(80), HasSubstr("pool threads"));
  EXPECT_THAT(table().print(80), HasSubstr("detail"));
}

TEST(TableWidth, DetailsGoFirstAndThenLeftCellsBreak) {
  EXPECT_EQ(table().print(40),
            "  split                         pool\n"
            "  pool 4, spread, all siblings     4\n");
  EXPECT_EQ(table().print(24),
            "  split             pool\n"
            "  pool 4, spread,      4\n"
            "  all siblings\n");
  EXPECT_THAT(table().print(24), Not(HasSubstr("0.98")));
}

TEST(TableWidth, ARowThatIsStillTooWideIsStacked) {
  Table splits({{"", Table::Align::left},
                {"split", Table::Align::left},
                {.title = "pool threads", .short_title = "pool"},
                {"period"},
                {"optimizer CPUs", Table::Align::left},
                {"", Table::Align::left},
                {.title = "detail", .need = Table::Need::detail}});
  splits.add({">", "half and half", "4", "97.0 ms", "0,2,4,6,8,10,12,14", "shared", "0.98"});
  splits.add({"", "unbound", "8", "", "0-15", "", "0.98"});
  EXPECT_EQ(splits.print(40),
            "  > split half and half\n"
            "      pool 4; period 97.0 ms;\n"
            "      optimizer CPUs 0,2,4,6,8,10,12,14;\n"
            "      shared\n"
            "    split unbound\n"
            "      pool 8; optimizer CPUs 0-15\n");
  EXPECT_THAT(splits.print(60), testing::StartsWith("     split "));
}

TEST(TableWidth, NoLineIsWiderThanThePage) {
  Table numbers({{"rank"}, {"training CPUs", Table::Align::left}, {"threads"}, {"GPU", Table::Align::left}});
  numbers.add({"0", "0,4-6,9,11-13,17-19,21", "12", "0000:03:00.0, node 0"});
  numbers.add({"1", "7-8,10,14-16,20,22-30", "12", "-"});
  for (std::size_t width = 24; width <= 80; ++width) {
    std::istringstream lines(numbers.print(width));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), width) << line;
  }
}

TEST(TableText, ACellIsOneLineWhateverOthersWroteIntoIt) {
  Table names({{"node"}, {"name", Table::Align::left}});
  names.add({"0", "a\x1b[2J\nnode 7"});
  names.add({"1", std::string(6000, 'x')});
  EXPECT_THAT(names.print(), HasSubstr("     0  a [2J node 7\n     1  xxx"));
  EXPECT_LT(names.print().size(), 4100U);
}

}  // namespace
}  // namespace zf
