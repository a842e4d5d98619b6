// Text and tables as HTML. Pure.
#pragma once

#include <string>
#include <string_view>

#include "text/table.hpp"

namespace zf {

/// For between tags or inside a quoted attribute: nothing in `text` is markup any more.
std::string html_text(std::string_view text);

/// Numbers to the right, the chosen row (explain.hpp) marked and of class "chosen".
std::string html_table(const Table& table);

/// JSON text for a <script> element: means the same, and no part of it can end the element.
std::string json_for_script(std::string json);

}  // namespace zf
