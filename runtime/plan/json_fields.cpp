#include "plan/json_fields.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"

namespace zf {
namespace {

using nlohmann::json;

/// Far deeper than any of our documents.
constexpr int kMaxDepth = 16;
constexpr std::string_view kNext = "correct this, or make the file again";

std::string shortened(std::string_view text) {
  constexpr std::size_t kMost = 80;
  return text.size() <= kMost ? std::string(text) : format_text("{}...", text.substr(0, kMost));
}

/// Shortens a message of nlohmann: "[json.exception.parse_error.101] parse error at line 3, column 5: syntax
/// error while …".
std::string complaint(std::string_view what) {
  if (const auto at = what.find("] "); what.starts_with('[') && at != std::string_view::npos)
    what.remove_prefix(at + 2);
  if (what.starts_with("parse error at ")) what.remove_prefix(std::string_view("parse error at ").size());
  // The part "last read: '…'" quotes the whole token, which may be megabytes long.
  return what.size() <= 200 ? std::string(what) : format_text("{}...", what.substr(0, 200));
}

/// Remembers the keys of the open objects while parsing, to detect a duplicate key. JSON libraries silently
/// take the first or the last, and the person who edited the file meant one of them.
class DuplicateKeys {
 public:
  explicit DuplicateKeys(std::string_view name) : name_(name) {}

  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        if (depth >= kMaxDepth) {
          throw Error(Exit::usage, format_text("{}: is nested deeper than {} levels", name_, kMaxDepth),
                      kNext);
        }
        if (event == json::parse_event_t::object_start) open_.emplace_back();
        break;
      case json::parse_event_t::object_end:
        open_.pop_back();
        break;
      case json::parse_event_t::key:
        if (!open_.back().insert(parsed.get<std::string>()).second) {
          throw Error(
              Exit::usage,
              format_text("{}: the field \"{}\" appears twice", name_, shortened(parsed.get<std::string>())),
              "remove one of them");
        }
        break;
      default:
        break;
    }
    return true;
  }

 private:
  std::string_view name_;
  std::vector<std::set<std::string>> open_;
};

}  // namespace

std::string print_json(const Object& object) {
  return escape_control_chars(object.dump(2, ' ', false, Object::error_handler_t::replace)) + "\n";
}

std::string print_json_line(const Object& object) {
  return escape_control_chars(object.dump(-1, ' ', false, Object::error_handler_t::replace));
}

JsonDocument::JsonDocument(std::string_view text, std::string_view name, std::string_view if_broken)
    : name_(name) {
  // The parser would take a NUL byte for the end of the text.
  if (text.find('\0') != std::string_view::npos) {
    throw Error(Exit::usage, format_text("{}: is not JSON: it contains a NUL byte", name), if_broken);
  }
  try {
    value_ = std::make_unique<json>(json::parse(text, DuplicateKeys(name)));
  } catch (const json::exception& error) {
    throw Error(Exit::usage, format_text("{}: is not JSON: {}", name, complaint(error.what())), if_broken);
  }
}

JsonDocument::~JsonDocument() = default;

Field JsonDocument::root() const { return {*value_, "", name_}; }

const Field& Field::need_keys(const Keys& keys) const {
  if (!value_->is_object()) fail("is " + shown() + ", not an object");
  const auto is_in = [](const auto& names, std::string_view key) {
    return std::find(names.begin(), names.end(), key) != names.end();
  };
  for (const auto& [key, ignored] : value_->items()) {
    if (!is_in(keys.all, key)) child(*value_, shortened(key)).fail("no such field");
  }
  for (const std::string_view key : keys.all) {
    if (!has(key) && !is_in(keys.may_be_absent, key)) child(*value_, key).fail("is missing");
  }
  return *this;
}

const Field& Field::schema(std::initializer_list<std::string_view> known) const {
  if (!value_->is_object()) fail("is " + shown() + ", not an object");
  const std::string wanted = format_text("it must be \"{}\"", join_text(known, "\" or \""));
  if (!has("schema")) child(*value_, "schema").fail("is missing; " + wanted);
  const std::string found = (*this)["schema"].text();
  if (std::find(known.begin(), known.end(), found) == known.end()) {
    throw Error(Exit::usage, format_text("{}: schema: is \"{}\"; {}", name_, shortened(found), wanted),
                "give a file of that kind; one of an older version must be made again");
  }
  return *this;
}

bool Field::has(std::string_view key) const { return value_->contains(key); }

bool Field::is_object() const { return value_->is_object(); }

bool Field::is_null() const { return value_->is_null(); }

Field Field::operator[](std::string_view key) const { return child(value_->at(std::string(key)), key); }

Field Field::child(const json& value, std::string_view key) const {
  return {value, format_text("{}{}{}", path_, path_.empty() ? "" : ".", key), name_};
}

std::vector<Field> Field::items() const {
  if (!value_->is_array()) fail("is " + shown() + ", not a list");
  std::vector<Field> fields;
  fields.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i) {
    fields.emplace_back((*value_)[i], format_text("{}[{}]", path_, i), name_);
  }
  return fields;
}

template <class Integer>
Integer Field::integer(Integer low, Integer high) const {
  if (value_->is_number_unsigned()) {
    const auto value = value_->get<std::uint64_t>();
    if (std::cmp_greater_equal(value, low) && std::cmp_less_equal(value, high)) {
      return static_cast<Integer>(value);
    }
  } else if (value_->is_number_integer()) {
    const auto value = value_->get<std::int64_t>();
    if (std::cmp_greater_equal(value, low) && std::cmp_less_equal(value, high)) {
      return static_cast<Integer>(value);
    }
  } else {
    fail("is " + shown() + ", not a whole number");
  }
  fail_range(std::to_string(low), std::to_string(high));
}

template int Field::integer(int, int) const;
template std::int64_t Field::integer(std::int64_t, std::int64_t) const;
template std::uint64_t Field::integer(std::uint64_t, std::uint64_t) const;

std::string Field::text() const {
  if (!value_->is_string()) fail("is " + shown() + ", not a text");
  return value_->get<std::string>();
}

bool Field::boolean() const {
  if (!value_->is_boolean()) fail("is " + shown() + ", neither true nor false");
  return value_->get<bool>();
}

double Field::number() const {
  if (!value_->is_number()) fail("is " + shown() + ", not a number");
  return value_->get<double>();
}

namespace {

/// Reads a list as this project writes it: ascending, without overlap. Readers of a plan may rely on that,
/// and it keeps "0-65535,0-65535,…" from naming any number of CPUs.
template <class Set, class Parse>
Set canonical_list(const Field& field, const Parse& parse) {
  const std::string text = field.text();
  Set all;
  std::size_t start = 0;
  std::vector<typename std::decay_t<decltype(*all.begin())>> ids;
  while (!text.empty() && start <= text.size()) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string part = text.substr(start, end - start);
    if (part.empty() || part.find_first_not_of("0123456789-") != std::string::npos) {
      field.fail(format_text("\"{}\" is not a list like 0,4-11", shortened(text)));
    }
    Set next;
    try {
      next = parse(part);
    } catch (const Error&) {
      field.fail(format_text("\"{}\" is not a list of indexes from 0 to {}: \"{}\" is wrong", shortened(text),
                             kMaxOsIndex, shortened(part)));
    }
    if (!ids.empty() && next.first() <= ids.back()) {
      field.fail(format_text("\"{}\" is not ascending at \"{}\"", shortened(text), part));
    }
    ids.insert(ids.end(), next.begin(), next.end());
    start = end + 1;
  }
  return Set(std::move(ids));
}

}  // namespace

CpuSet Field::cpus() const {
  return canonical_list<CpuSet>(*this, [](const std::string& part) { return parse_cpu_list(part, "list"); });
}

NodeSet Field::nodes() const {
  return canonical_list<NodeSet>(*this,
                                 [](const std::string& part) { return parse_node_list(part, "list"); });
}

void Field::need_word(std::string_view word) const {
  if (text() != word) fail_word(format_text(", not \"{}\"", word));
}

void Field::fail(std::string_view what) const {
  throw Error(Exit::usage, format_text("{}: {}{}{}", name_, path_, path_.empty() ? "" : ": ", what), kNext);
}

void Field::fail_at(std::string_view path, std::string_view what) const { child(*value_, path).fail(what); }

std::string Field::shown() const {
  if (value_->is_object()) return "an object";
  if (value_->is_array()) return "a list";
  return shortened(value_->dump(-1, ' ', false, json::error_handler_t::replace));
}

void Field::fail_word(std::string_view allowed) const { fail(format_text("is {}{}", shown(), allowed)); }

void Field::fail_range(std::string_view low, std::string_view high) const {
  fail(format_text("is {}, not between {} and {}", shown(), low, high));
}

}  // namespace zf
