#include "exports/json_splice.hpp"

#include <cassert>
#include <nlohmann/json.hpp>

#include "base/format.hpp"

namespace zf {
namespace {

constexpr std::string_view kBlanks = " \t\n\r";

std::size_t skip_blanks(std::string_view text, std::size_t at) { return text.find_first_not_of(kBlanks, at); }

/// Returns the end of the string that begins here.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  for (++at; text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at + 1;
}

/// Returns the end of the value that begins here.
std::size_t end_of_value(std::string_view text, std::size_t at) {
  if (text[at] == '"') return end_of_string(text, at);
  if (text[at] != '{' && text[at] != '[') return std::min(text.find_first_of(" \t\n\r,]}", at), text.size());
  int depth = 0;
  for (;;) {
    if (text[at] == '"') {
      at = end_of_string(text, at);
      continue;
    }
    if (text[at] == '{' || text[at] == '[') ++depth;
    if (text[at] == '}' || text[at] == ']') --depth;
    ++at;
    if (depth == 0) return at;
  }
}

/// Where a member of an object is in the text. A part of it is the text from `begin` to `end`.
struct Member {
  std::size_t before;  ///< behind the brace or the comma
  std::size_t key, key_end;
  std::size_t value, value_end;
};

/// Calls visit(member) for each member of the object with its brace here, until it returns true.
template <class Visit>
void for_each_member(std::string_view text, std::size_t brace, Visit visit) {
  for (std::size_t at = brace; text[at] != '}';) {
    Member member = {};
    member.before = at + 1;
    member.key = skip_blanks(text, member.before);
    if (text[member.key] == '}') return;  // an empty object
    member.key_end = end_of_string(text, member.key);
    member.value = skip_blanks(text, skip_blanks(text, member.key_end) + 1);
    member.value_end = end_of_value(text, member.value);
    if (visit(member)) return;
    at = skip_blanks(text, member.value_end);
  }
}

std::optional<Member> member_with(std::string_view text, std::size_t brace, std::string_view key) {
  std::optional<Member> found;
  for_each_member(text, brace, [&](const Member& member) {
    const auto written = text.substr(member.key, member.key_end - member.key);
    if (nlohmann::json::parse(written).get<std::string>() == key) found = member;
    return found.has_value();
  });
  return found;
}

std::string replaced(std::string_view text, std::size_t begin, std::size_t end, std::string_view by) {
  return format_text("{}{}{}", text.substr(0, begin), by, text.substr(end));
}

}  // namespace

JsonSplice::JsonSplice(std::string_view text, std::initializer_list<std::string_view> path)
    : text_(text), object_(text.find('{')) {
  for (const std::string_view key : path) {
    const auto member = member_with(text_, object_, key);
    assert(member && text_[member->value] == '{');
    object_ = member->value;
  }
}

std::optional<std::string_view> JsonSplice::find(std::string_view key) const {
  const auto member = member_with(text_, object_, key);
  if (!member) return std::nullopt;
  return text_.substr(member->value, member->value_end - member->value);
}

std::string JsonSplice::with(std::string_view key, std::string_view value) const {
  if (const auto member = member_with(text_, object_, key))
    return replaced(text_, member->value, member->value_end, value);
  std::optional<Member> last;
  for_each_member(text_, object_, [&](const Member& member) {
    last = member;
    return false;
  });
  if (!last) return replaced(text_, object_ + 1, object_ + 1, format_text("\"{}\": {}", key, value));
  const auto part = [&](std::size_t begin, std::size_t end) { return text_.substr(begin, end - begin); };
  return replaced(text_, last->value_end, last->value_end,
                  format_text(",{}\"{}\"{}{}", part(last->before, last->key), key,
                              part(last->key_end, last->value), value));
}

}  // namespace zf
