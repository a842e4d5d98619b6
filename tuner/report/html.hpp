// Writes text and tables as HTML. Pure.
#pragma once

#include <string>
#include <string_view>

#include "text/table.hpp"

namespace zf {

/// Escapes `text` for use between tags or inside a quoted attribute. Cuts it as one_line() does.
std::string html_text(std::string_view text);

/// Returns the table as HTML. Numbers are aligned to the right; the chosen row (kChosenMark) has the class
/// "chosen".
std::string html_table(const Table& table);

/// Returns a whole page that needs no other file and loads none. `title` and `body` are HTML.
std::string html_page(std::string_view title, std::string_view body);

}  // namespace zf
