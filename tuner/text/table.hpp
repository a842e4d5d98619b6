// Plain text tables: each column is as wide as its widest cell; numbers are aligned to the right.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace zf {

/// The width with which nothing is wrapped or left out.
inline constexpr std::size_t kUnlimitedWidth = static_cast<std::size_t>(-1);

class Table {
 public:
  enum class Align { left, right };
  /// The choice whether a column stays if the table is wider than the page.
  enum class Need { essential, detail };
  struct Column {
    std::string title;
    Align align = Align::right;
    Need need = Need::essential;
    std::string short_title = {};  ///< the title if details are left out; empty: `title`
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Adds a row. Each cell becomes one_line(): others may have written it. Precondition: one cell per column.
  void add(std::vector<std::string> cells);

  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

  /// Returns the title line and the rows, each line indented by two blanks and ended by a newline. If the
  /// whole table does not fit the width, details are left out; if the rest does not fit, cells of
  /// left-aligned columns are broken after commas and blanks. If that is not enough, each row is stacked: its
  /// first cell on a line, and below it the others, each with its title. Only a word that is longer than the
  /// width makes a line too long.
  std::string print(std::size_t width = kUnlimitedWidth) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// A column of a table of rows of one type, and whether the table has it.
template <class Row>
struct ColumnOf {
  Table::Column head;
  std::function<std::string(const Row&)> cell;
  bool shown = true;
};

/// Returns the table of these rows with the columns that are shown.
template <class Row>
Table table_of(std::span<const ColumnOf<Row>> columns, const std::vector<Row>& rows) {
  std::vector<Table::Column> heads;
  for (const auto& column : columns) {
    if (column.shown) heads.push_back(column.head);
  }
  Table table(std::move(heads));
  for (const Row& row : rows) {
    std::vector<std::string> cells;
    for (const auto& column : columns) {
      if (column.shown) cells.push_back(column.cell(row));
    }
    table.add(std::move(cells));
  }
  return table;
}

}  // namespace zf
