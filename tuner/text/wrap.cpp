#include "text/wrap.hpp"

#include <algorithm>

namespace zf {
namespace {

/// Returns true for a letter that can begin a sentence: a capital letter or a digit.
bool begins_sentence(char letter) {
  return (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9');
}

bool begins_letter(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80; }

/// Returns how many bytes the first `letters` letters of a text have.
std::size_t bytes_of(std::string_view text, std::size_t letters) {
  std::size_t end = 0;
  while (end < text.size() && (letters > 0 || !begins_letter(text[end]))) {
    if (begins_letter(text[end])) --letters;
    ++end;
  }
  return end;
}

/// Returns how many bytes of `text` go on a line of `width`.
std::size_t line_end(std::string_view text, std::size_t width) {
  if (columns_of(text) <= width) return text.size();
  const std::size_t most = bytes_of(text, width);
  // A blank may be the first letter that does not fit; a comma must fit.
  for (std::size_t end = most; end > 0; --end) {
    if (text[end] == ' ' || text[end - 1] == ',') return end;
  }
  if (const std::size_t bar = text.substr(0, most).rfind('|'); bar != std::string_view::npos) return bar + 1;
  const std::size_t next = text.find_first_of(" ,", most);
  if (next == std::string_view::npos) return text.size();
  return text[next] == ',' ? next + 1 : next;
}

}  // namespace

std::size_t columns_of(std::string_view line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), begins_letter));
}

std::vector<std::string> broken(std::string_view text, std::size_t width) {
  std::vector<std::string> pieces;
  do {
    const std::size_t end = line_end(text, width);
    pieces.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  } while (!text.empty());
  return pieces;
}

std::string hanging(std::string_view lead, std::string_view text, std::size_t width) {
  const std::size_t columns = columns_of(lead);
  const std::string indent(columns, ' ');
  std::string lines;
  std::string_view before = lead;
  for (const std::string& piece : broken(text, width > columns ? width - columns : 1)) {
    lines += before;
    lines += piece;
    lines += '\n';
    before = indent;
  }
  return lines;
}

std::string wrapped(std::string_view text, std::size_t width) {
  constexpr std::string_view kIndent = "  ";
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t first = line_end(line, width);
    lines += line.substr(0, first);
    lines += '\n';
    const std::size_t rest = line.find_first_not_of(' ', first);
    if (rest != std::string_view::npos) lines += hanging(kIndent, line.substr(rest), width);
  }
  return lines;
}

std::vector<std::string> sentences(std::string_view text) {
  std::vector<std::string> all;
  std::size_t start = 0;
  for (std::size_t at = 0; at + 2 < text.size(); ++at) {
    if (text[at] != '.' || text[at + 1] != ' ' || !begins_sentence(text[at + 2])) continue;
    all.emplace_back(text.substr(start, at + 1 - start));
    start = at + 2;
  }
  all.emplace_back(text.substr(start));
  return all;
}

}  // namespace zf
