#include "report/html.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "base/text.hpp"
#include "report/explain.hpp"

namespace zf {

/// Returns page.css. The build makes this function (scripts/embed.cmake).
std::vector<std::pair<std::string_view, std::string_view>> page_files();

namespace {

constexpr const char* kMarkSeen = "<span aria-hidden=\"true\">▶</span><span class=\"unseen\">chosen</span>";

/// Makes the browser refuse to load or run anything.
constexpr const char* kPolicy = "default-src 'none'; style-src 'unsafe-inline'";

struct Escape {
  char letter;
  const char* entity;
};
constexpr auto kEscapes =
    std::to_array<Escape>({{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}});

/// Longer text may be broken anywhere.
constexpr std::size_t kOneLine = 40;

std::string cell(std::string_view tag, const Table::Column& column, std::string_view text) {
  const char* kind = "";
  if (column.align == Table::Align::right) kind = " class=\"number\"";
  if (text.size() > kOneLine) kind = " class=\"long\"";
  return format_text("<{}{}>{}</{}>", tag, kind, text == kChosenMark ? kMarkSeen : html_text(text), tag);
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string safe;
  for (const char letter : one_line(text)) {
    const auto* const escape = std::ranges::find(kEscapes, letter, &Escape::letter);
    safe += escape == kEscapes.end() ? std::string(1, letter) : escape->entity;
  }
  return safe;
}

std::string html_table(const Table& table) {
  const auto& columns = table.columns();
  std::string text = "<div class=\"wide\"><table><thead><tr>";
  for (const Table::Column& column : columns) {
    text += cell(column.title.empty() ? "td" : "th", column, column.title);
  }
  text += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows()) {
    text += row.front() == kChosenMark ? "<tr class=\"chosen\">" : "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) text += cell("td", columns[i], row[i]);
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

std::string html_page(std::string_view title, std::string_view body) {
  return format_text(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n"
      "<style>\n{}</style>\n</head>\n<body>\n\n{}</body>\n</html>\n",
      kPolicy, title, page_files().front().second, body);
}

}  // namespace zf
