#include "text/wrap.hpp"

namespace zf {
namespace {

/// Returns true for a letter that can begin a sentence: a capital letter or a digit.
bool begins_sentence(char letter) {
  return (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9');
}

/// Returns how many characters of `text` go on a line of `width`.
std::size_t line_end(std::string_view text, std::size_t width) {
  if (text.size() <= width) return text.size();
  // A blank may be the first character that does not fit; a comma must fit.
  for (std::size_t end = width; end > 0; --end) {
    if (text[end] == ' ' || text[end - 1] == ',') return end;
  }
  const std::size_t next = text.find_first_of(" ,", width);
  if (next == std::string_view::npos) return text.size();
  return text[next] == ',' ? next + 1 : next;
}

}  // namespace

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
  const std::string indent(lead.size(), ' ');
  std::string lines;
  std::string_view before = lead;
  for (const std::string& piece : broken(text, width > lead.size() ? width - lead.size() : 1)) {
    lines += before;
    lines += piece;
    lines += '\n';
    before = indent;
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
