#include "text/table.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "base/format.hpp"
#include "base/text.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kNarrowest = 12;  // a column is not made narrower than this

/// The cells that are shown, as columns: cells[row][column], the titles first.
struct Grid {
  std::vector<Table::Align> aligns;
  std::vector<std::vector<std::string>> cells;

  std::vector<std::size_t> widths() const {
    std::vector<std::size_t> widths(aligns.size(), 0);
    for (const auto& row : cells) {
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
    }
    return widths;
  }
};

std::size_t total(const std::vector<std::size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), kGap * widths.size());
}

Grid grid_of(const Table& table, bool with_details) {
  Grid grid;
  std::vector<std::size_t> shown;
  grid.cells.emplace_back();
  for (std::size_t i = 0; i < table.columns().size(); ++i) {
    const Table::Column& column = table.columns()[i];
    if (!with_details && column.need == Table::Need::detail) continue;
    shown.push_back(i);
    grid.aligns.push_back(column.align);
    const bool brief = !with_details && !column.short_title.empty();
    grid.cells.front().push_back(brief ? column.short_title : column.title);
  }
  for (const auto& row : table.rows()) {
    std::vector<std::string> cells;
    for (const std::size_t i : shown) cells.push_back(row[i]);
    grid.cells.push_back(std::move(cells));
  }
  return grid;
}

/// Takes columns off the widest left-aligned column, one by one, until the table fits or nothing can be
/// taken.
void fit(const Grid& grid, std::vector<std::size_t>& widths, std::size_t width) {
  while (total(widths) > width) {
    std::size_t* widest = nullptr;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (grid.aligns[i] != Table::Align::left || widths[i] <= kNarrowest) continue;
      if (widest == nullptr || widths[i] > *widest) widest = &widths[i];
    }
    if (widest == nullptr) return;
    --*widest;
  }
}

void print_row(const Grid& grid, const std::vector<std::string>& row, const std::vector<std::size_t>& widths,
               std::string& text) {
  std::vector<std::vector<std::string>> pieces;
  std::size_t lines = 1;
  for (std::size_t i = 0; i < row.size(); ++i) {
    pieces.push_back(grid.aligns[i] == Table::Align::left ? broken(row[i], widths[i])
                                                          : std::vector<std::string>{row[i]});
    lines = std::max(lines, pieces.back().size());
  }
  for (std::size_t line = 0; line < lines; ++line) {
    std::string out;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string cell = line < pieces[i].size() ? pieces[i][line] : "";
      out += grid.aligns[i] == Table::Align::left ? format_text("  {:<{}}", cell, widths[i])
                                                  : format_text("  {:>{}}", cell, widths[i]);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    text += out + "\n";
  }
}

std::string grid_text(const Grid& grid, const std::vector<std::size_t>& widths) {
  std::string text;
  for (const auto& row : grid.cells) print_row(grid, row, widths, text);
  return text;
}

bool fits(std::string_view text, std::size_t width) {
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    if (columns_of(text.substr(start, end - start)) > width) return false;
    start = end + 1;
  }
  return true;
}

/// Returns "title cell".
std::string titled(const std::string& title, const std::string& cell) {
  return title.empty() ? cell : format_text("{} {}", title, cell);
}

/// Appends the items, with "; " between two, in lines of `width` that begin with `indent`. An item is broken
/// only if it is longer than a line.
void print_items(const std::vector<std::string>& items, const std::string& indent, std::size_t width,
                 std::string& text) {
  std::string line;
  const auto end_line = [&] {
    if (!line.empty()) text += hanging(indent, line, width);
    line.clear();
  };
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 < items.size() ? ";" : "");
    if (!line.empty() && indent.size() + columns_of(line) + 1 + columns_of(item) > width) end_line();
    line += (line.empty() ? "" : " ") + item;
  }
  end_line();
}

/// Returns each row as a line with its marks (the cells of columns without a title at the left) and its first
/// titled cell, and the other cells that are not empty below it.
std::string stacked(const Grid& grid, std::size_t width) {
  const std::vector<std::string>& titles = grid.cells.front();
  const std::vector<std::size_t> widths = grid.widths();
  const auto first = static_cast<std::size_t>(
      std::find_if(titles.begin(), titles.end(), [](const std::string& title) { return !title.empty(); }) -
      titles.begin());
  std::string text;
  for (std::size_t row = 1; row < grid.cells.size(); ++row) {
    const std::vector<std::string>& cells = grid.cells[row];
    std::string lead(kGap, ' ');
    for (std::size_t i = 0; i < first; ++i) lead += format_text("{:<{}} ", cells[i], widths[i]);
    if (first < cells.size()) text += hanging(lead, titled(titles[first], cells[first]), width);
    std::vector<std::string> items;
    for (std::size_t i = first + 1; i < cells.size(); ++i) {
      if (!cells[i].empty()) items.push_back(titled(titles[i], cells[i]));
    }
    print_items(items, std::string(columns_of(lead) + kGap, ' '), width, text);
  }
  return text;
}

}  // namespace

void Table::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = one_line(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::print(std::size_t width) const {
  Grid grid = grid_of(*this, true);
  std::vector<std::size_t> widths = grid.widths();
  if (total(widths) > width) {
    grid = grid_of(*this, false);
    widths = grid.widths();
    fit(grid, widths, width);
  }
  std::string text = grid_text(grid, widths);
  return fits(text, width) ? text : stacked(grid, width);
}

}  // namespace zf
