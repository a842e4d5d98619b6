// Plain text tables: each column is as wide as its widest cell; numbers are aligned to the right.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace zf {

class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::right;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Precondition: one cell per column.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

  /// Returns the title line and the rows. Each line is indented by two blanks and ends with a newline.
  std::string print() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace zf
