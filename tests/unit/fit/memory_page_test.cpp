#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "base/format.hpp"
#include "fit/formulas.hpp"
#include "fit_jobs.hpp"
#include "paths.hpp"

namespace zf {
namespace {

/// Returns the cells of a row without its bytes: "model|made-read|CPU". `{}` stands for the bytes.
std::string cells_of(const FormulaRow& row) {
  std::string when;
  for (const Condition* const each : row.when) {
    if (each != nullptr) when += format_text("{}{}", when.empty() ? "" : ", ", each->name);
  }
  const auto name = [](Moment moment) { return kMomentNames[static_cast<std::size_t>(moment)]; };
  const std::string moments = row.first == row.last ? std::string(name(row.first))
                                                    : format_text("{}-{}", name(row.first), name(row.last));
  return format_text("|{}|%|{}|{}|\n", name_of(row.item), moments, when);
}

/// Returns a table of the page. Rows that differ in their bytes alone are one.
std::string table_of(const Formulas& formulas) {
  std::string text = format_text("{}:\n\n|item|bytes|moments|if|\n|---|---|---|---|\n", formulas.name);
  for (std::size_t i = 0; i < formulas.rows.size();) {
    const std::string cells = cells_of(formulas.rows[i]);
    std::string bytes;
    for (; i < formulas.rows.size() && cells_of(formulas.rows[i]) == cells; ++i)
      bytes += format_text("{}{}", bytes.empty() ? "" : "+", formulas.rows[i].bytes.text);
    text += std::string(cells).replace(cells.find('%'), 1, bytes);
  }
  return text;
}

TEST(MemoryPage, ShowsEveryRowOfTheFormulas) {
  std::stringstream page;
  page << std::ifstream(std::string(kSourceDir) + "/docs/memory.md").rdbuf();
  for (const Formulas& formulas : all_formulas())
    EXPECT_THAT(page.str(), testing::HasSubstr(table_of(formulas)));
}

TEST(Formulas, EachRowCountsForSomeJob) {
  std::set<std::string> used;
  const auto key = [](const FormulaRow& row) { return cells_of(row) + row.bytes.text; };
  for (FitJob job : all_jobs(1'000'000)) {
    for (unsigned extras = 0; extras < 1U << job.extras.size(); ++extras) {
      for (std::size_t i = 0; i < job.extras.size(); ++i) job.extras[i] = (extras >> i & 1U) != 0;
      if (why_no_such_job(job)) continue;
      for (const FormulaRow& row : formulas_of(job)) used.insert(key(row));
    }
  }
  FitJob alone;  // all_jobs() have several ranks
  alone.stepper = StepMethod::in_place;
  alone.mode = Mode::backward;
  alone.device = Device::cpu;
  ASSERT_EQ(why_no_such_job(alone), std::nullopt);
  for (const FormulaRow& row : formulas_of(alone)) used.insert(key(row));
  for (const Formulas& formulas : all_formulas()) {
    for (const FormulaRow& row : formulas.rows)
      EXPECT_TRUE(used.contains(key(row))) << formulas.name << ": " << key(row);
  }
}

}  // namespace
}  // namespace zf
