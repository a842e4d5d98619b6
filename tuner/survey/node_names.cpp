#include "survey/node_names.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

constexpr std::size_t kMostDigits = 9;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A name around its last number. A name without a number has only a head.
struct NameParts {
  std::string head;
  std::string digits;
  std::string tail;
};

NameParts parts_of(const std::string& name) {
  const auto last = std::find_if(name.rbegin(), name.rend(), is_digit);
  const auto first = std::find_if_not(last, name.rend(), is_digit);
  const auto count = static_cast<std::size_t>(first - last);
  if (count == 0 || count > kMostDigits) return {name, "", ""};
  const auto begin = static_cast<std::size_t>(name.rend() - first);
  return {name.substr(0, begin), name.substr(begin, count), name.substr(begin + count)};
}

/// The numbers of names with the same head and tail, by the width to which zeros fill them; 0: none do.
using NumbersByWidth = std::map<std::size_t, std::set<int>>;

NumbersByWidth numbers_by_width(const std::set<std::string>& all) {
  NumbersByWidth numbers;
  std::vector<std::string> plain;
  for (const std::string& digits : all) {
    if (digits.size() > 1 && digits.front() == '0') {
      numbers[digits.size()].insert(*parse_number<int>(digits));
    } else {
      plain.push_back(digits);
    }
  }
  // 604 goes with 001, and so does 1000.
  std::vector<std::size_t> widths;
  for (const auto& entry : numbers) widths.push_back(entry.first);
  for (const std::string& digits : plain) {
    std::size_t width = 0;
    for (const std::size_t filled : widths) {
      if (filled <= digits.size()) width = filled;
    }
    numbers[width].insert(*parse_number<int>(digits));
  }
  return numbers;
}

/// Returns "001-604,606".
std::string ranges_of(const std::set<int>& numbers, std::size_t width) {
  std::string text;
  for (auto first = numbers.begin(); first != numbers.end();) {
    auto last = first;
    auto next = std::next(first);
    while (next != numbers.end() && *next == *last + 1) last = next++;
    text += format_text("{}{:0{}}", text.empty() ? "" : ",", *first, width);
    if (last != first) text += format_text("-{:0{}}", *last, width);
    first = next;
  }
  return text;
}

class Unfolding {
 public:
  Unfolding(std::string_view list, std::string_view what) : list_(list), what_(what) {}

  std::vector<std::string> names() {
    std::size_t depth = 0;
    std::string item;
    for (const char c : list_) {
      if (c == '[') ++depth;
      if (c == ']' && depth > 0) --depth;
      const bool separates = c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r';
      if (depth == 0 && separates) {
        add(std::exchange(item, ""));
      } else {
        item += c;
      }
    }
    add(item);
    return std::move(names_);
  }

 private:
  void add(const std::string& item) {
    if (!item.empty()) expand("", item, item);
  }

  /// Adds all names that begin with `head` and go on as `rest` says. `item` is for messages.
  void expand(const std::string& head, const std::string& rest, const std::string& item) {
    const std::size_t open = rest.find('[');
    if (open == std::string::npos) {
      if (!is_node_name(head + rest)) refuse(item, "is no name of a node");
      if (names_.size() >= kMostNodes) refuse(item, format_text("is one of more than {} names", kMostNodes));
      names_.push_back(head + rest);
      return;
    }
    const std::size_t close = rest.find(']', open);
    if (close == std::string::npos) refuse(item, "has no ] for its [");
    std::string_view ranges = std::string_view(rest).substr(open + 1, close - open - 1);
    while (true) {
      const std::size_t comma = std::min(ranges.find(','), ranges.size());
      expand_range(head + rest.substr(0, open), ranges.substr(0, comma), rest.substr(close + 1), item);
      if (comma == ranges.size()) return;
      ranges.remove_prefix(comma + 1);
    }
  }

  void expand_range(const std::string& head, std::string_view range, const std::string& rest,
                    const std::string& item) {
    const std::size_t dash = std::min(range.find('-'), range.size());
    const std::string_view low = range.substr(0, dash);
    const std::string_view high = dash == range.size() ? low : range.substr(dash + 1);
    const auto number = [&](std::string_view digits) {
      const bool is_number = !digits.empty() && digits.size() <= kMostDigits &&
                             std::all_of(digits.begin(), digits.end(), is_digit);
      if (!is_number) refuse(item, format_text("has \"{}\", which is no range like 001-604", range));
      return *parse_number<int>(digits);
    };
    const int first = number(low);
    const int last = number(high);
    if (last < first) refuse(item, format_text("has \"{}\", which runs backwards", range));
    for (int i = first; i <= last; ++i) expand(format_text("{}{:0{}}", head, i, low.size()), rest, item);
  }

  [[noreturn]] void refuse(const std::string& item, std::string_view why) const {
    throw Error(Exit::usage, format_text("{}: \"{}\" {}", what_, one_line(item.substr(0, 80)), why),
                "write names like gpu[001-604,606],login1");
  }

  std::string_view list_;
  std::string_view what_;
  std::vector<std::string> names_;
};

}  // namespace

bool is_node_name(std::string_view name) {
  constexpr std::size_t kLongest = 200;
  const auto is_letter_or_digit = [](char c) {
    return is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  };
  return !name.empty() && name.size() <= kLongest && is_letter_or_digit(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_letter_or_digit(c) || c == '.' || c == '-' || c == '_'; });
}

std::string folded_names(const std::vector<std::string>& names) {
  std::map<std::pair<std::string, std::string>, std::set<std::string>> digits_by_name;
  for (const std::string& name : names) {
    const NameParts parts = parts_of(name);
    digits_by_name[{parts.head, parts.tail}].insert(parts.digits);
  }
  std::string text;
  const auto add = [&](const std::string& name) { text += (text.empty() ? "" : ",") + name; };
  for (auto& [around, digits] : digits_by_name) {
    if (digits.erase("") > 0) add(around.first);
    for (const auto& [width, numbers] : numbers_by_width(digits)) {
      const std::string ranges = ranges_of(numbers, width);
      const std::string middle = numbers.size() == 1 ? ranges : format_text("[{}]", ranges);
      add(around.first + middle + around.second);
    }
  }
  return text;
}

std::vector<std::string> unfolded_names(std::string_view list, std::string_view what) {
  std::vector<std::string> names = Unfolding(list, what).names();
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace zf
