#include "plan/json_fields.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"

namespace zf {
namespace {

using nlohmann::json;

/// Returns a value as JSON on one line.
template <class Value>
std::string printed(const Value& value) {
  return shortened(json(value).dump(-1, ' ', false, json::error_handler_t::replace));
}

bool is_number(JsonTree::Kind kind) {
  return kind == JsonTree::Kind::negative || kind == JsonTree::Kind::natural || kind == JsonTree::Kind::real;
}

/// Returns true if a schema is a later version of the same kind: "zf-plan/10" is one of "zf-plan/2".
bool is_later(std::string_view schema, std::string_view known) {
  const std::size_t number = known.rfind('/') + 1;
  return schema.starts_with(known.substr(0, number)) &&
         schema.find_first_not_of("0123456789", number) == std::string_view::npos &&
         std::pair(schema.size(), schema) > std::pair(known.size(), known);
}

}  // namespace

std::string print_json(const Object& object) {
  return escape_control_chars(object.dump(2, ' ', false, Object::error_handler_t::replace)) + "\n";
}

std::string print_json_line(const Object& object) {
  return escape_control_chars(object.dump(-1, ' ', false, Object::error_handler_t::replace));
}

JsonDocument::JsonDocument(std::string_view text, std::string_view name, std::string_view if_broken,
                           std::string_view next)
    : tree_(text, name, if_broken), name_(name), next_(next) {}

Field Items::Iterator::operator*() const {
  if (list_->is_object()) return list_->child(value_, shortened(list_->tree_->key(value_)));
  return {*list_->tree_, value_, format_text("{}[{}]", list_->path_, index_), list_->name_, list_->next_};
}

Items::Iterator& Items::Iterator::operator++() {
  value_ = list_->tree_->next(value_);
  ++index_;
  return *this;
}

const Field& Field::need_object() const {
  if (!is_object()) fail("is " + shown() + ", not an object");
  return *this;
}

const Field& Field::need_keys(const Keys& keys) const {
  need_object();
  const auto is_in = [](const auto& names, std::string_view key) {
    return std::find(names.begin(), names.end(), key) != names.end();
  };
  const std::uint32_t end = tree_->next(value_);
  for (std::uint32_t member = JsonTree::first(value_); member != end; member = tree_->next(member)) {
    if (!is_in(keys.all, tree_->key(member))) fail_member(shortened(tree_->key(member)), "no such field");
  }
  for (const std::string_view key : keys.all) {
    if (!has(key) && !is_in(keys.may_be_absent, key)) fail_member(key, "is missing");
  }
  return *this;
}

const Field& Field::schema(std::string_view known) const {
  const std::string wanted = format_text("it must be \"{}\"", known);
  if (!need_object().has("schema")) fail_member("schema", "is missing; " + wanted);
  const std::string found = (*this)["schema"].text();
  if (found != known) {
    throw Error(
        Exit::usage, format_text("{}: schema: is \"{}\"; {}", name_, shortened(found), wanted),
        is_later(found, known)
            ? "it is of a newer version: use that version here too, or make the file again with this one"
            : "give a file of that kind; one of an older version must be made again");
  }
  return *this;
}

bool Field::has(std::string_view key) const {
  return is_object() && tree_->find(value_, key) != JsonTree::kNone;
}

bool Field::is_object() const { return kind() == JsonTree::Kind::object; }

bool Field::is_null() const { return kind() == JsonTree::Kind::null; }

Field Field::operator[](std::string_view key) const { return child(tree_->find(value_, key), key); }

Field Field::child(std::uint32_t value, std::string_view key) const {
  return {*tree_, value, format_text("{}{}{}", path_, path_.empty() ? "" : ".", key), name_, next_};
}

void Field::fail_member(std::string_view key, std::string_view what) const { child(value_, key).fail(what); }

Field Field::need(std::string_view key) const {
  if (!need_object().has(key)) fail_member(key, "is missing");
  return (*this)[key];
}

Items Field::members() const { return Items(need_object()); }

Items Field::items() const {
  if (kind() != JsonTree::Kind::list) fail("is " + shown() + ", not a list");
  return Items(*this);
}

template <class Integer>
Integer Field::integer(Integer low, Integer high) const {
  if (kind() == JsonTree::Kind::natural) {
    const std::uint64_t value = tree_->natural(value_);
    if (std::cmp_greater_equal(value, low) && std::cmp_less_equal(value, high)) {
      return static_cast<Integer>(value);
    }
  } else if (kind() == JsonTree::Kind::negative) {
    const std::int64_t value = tree_->negative(value_);
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
  if (kind() != JsonTree::Kind::text) fail("is " + shown() + ", not a text");
  return std::string(tree_->text(value_));
}

bool Field::boolean() const {
  if (kind() != JsonTree::Kind::boolean) fail("is " + shown() + ", neither true nor false");
  return tree_->boolean(value_);
}

double Field::number() const {
  if (!is_number(kind())) fail("is " + shown() + ", not a number");
  return tree_->real(value_);
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
  throw Error(Exit::usage, format_text("{}: {}{}{}", name_, path_, path_.empty() ? "" : ": ", what), next_);
}

void Field::fail_at(std::string_view path, std::string_view what) const { fail_member(path, what); }

std::string Field::shown() const {
  switch (kind()) {
    case JsonTree::Kind::object:
      return "an object";
    case JsonTree::Kind::list:
      return "a list";
    case JsonTree::Kind::null:
      return "null";
    case JsonTree::Kind::boolean:
      return tree_->boolean(value_) ? "true" : "false";
    case JsonTree::Kind::text:
      return printed(tree_->text(value_));
    case JsonTree::Kind::natural:
      return printed(tree_->natural(value_));
    case JsonTree::Kind::negative:
      return printed(tree_->negative(value_));
    default:
      return printed(tree_->real(value_));
  }
}

void Field::fail_word(std::string_view allowed) const { fail(format_text("is {}{}", shown(), allowed)); }

void Field::fail_range(std::string_view low, std::string_view high) const {
  fail(format_text("is {}, not between {} and {}", shown(), low, high));
}

}  // namespace zf
