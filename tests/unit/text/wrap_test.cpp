#include "text/wrap.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(TableText, ACellIsOneLineWhateverOthersWroteIntoIt) {
  Table names({{"node"}, {"name", Table::Align::left}});
  names.add({"0", "a\x1b[2J\nnode 7"});
  names.add({"1", std::string(6000, 'x')});
  EXPECT_THAT(names.print(), HasSubstr("     0  a [2J node 7\n     1  xxx"));
  EXPECT_LT(names.print().size(), 4100U);
}

}  // namespace
}  // namespace zf
