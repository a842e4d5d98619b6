#include "plan/json_tree.hpp"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"

namespace zf {
namespace {

using nlohmann::json;

/// Far deeper than any of our documents.
constexpr std::size_t kMaxDepth = 16;
/// A plan has some ten for each sample, and a sweep of a night some 100,000 samples.
constexpr std::size_t kMaxValues = 4'000'000;

/// Looking for two equal keys among millions takes seconds.
constexpr std::size_t kMaxMembers = 100'000;

/// Shortens a message of nlohmann: "[json.exception.parse_error.101] parse error at line 3, column 5: syntax
/// error while …".
std::string complaint(std::string_view what) {
  if (const auto at = what.find("] "); what.starts_with('[') && at != std::string_view::npos)
    what.remove_prefix(at + 2);
  if (what.starts_with("parse error at ")) what.remove_prefix(std::string_view("parse error at ").size());
  // The part "last read: '…'" quotes the whole token, which may be megabytes long.
  return shortened(what, 200);
}

}  // namespace

std::string shortened(std::string_view text, std::size_t most) {
  return text.size() <= most ? std::string(text) : format_text("{}...", text.substr(0, most));
}

/// Takes the parser's events.
class JsonTree::Builder : public nlohmann::json_sax<json> {
 public:
  Builder(JsonTree& tree, std::string_view name, std::string_view if_broken)
      : tree_(tree), name_(name), if_broken_(if_broken) {}

  bool null() override { return add(Kind::null, {.natural = 0}); }
  bool boolean(bool value) override { return add(Kind::boolean, {.natural = value ? 1U : 0U}); }
  bool number_integer(std::int64_t value) override { return add(Kind::negative, {.negative = value}); }
  bool number_unsigned(std::uint64_t value) override { return add(Kind::natural, {.natural = value}); }
  bool number_float(double value, const std::string&) override { return add(Kind::real, {.real = value}); }
  bool string(std::string& value) override { return add(Kind::text, {.text = keep(value)}); }
  bool binary(json::binary_t&) override { return false; }  // JSON has none
  bool start_object(std::size_t) override { return open(Kind::object); }
  bool start_array(std::size_t) override { return open(Kind::list); }
  bool end_array() override { return close(); }

  bool key(std::string& value) override {
    key_ = keep(value);
    return true;
  }

  bool end_object() override {
    need_single_keys(open_.back());
    return close();
  }

  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    throw Error(Exit::usage, format_text("{}: is not JSON: {}", name_, complaint(error.what())), if_broken_);
  }

 private:
  bool add(Kind kind, Content content) {
    if (tree_.values_.size() == kMaxValues) refuse_more_than(kMaxValues, "values");
    tree_.values_.push_back({content, std::exchange(key_, {}), kind});
    return true;
  }

  [[noreturn]] void refuse_more_than(std::size_t most, std::string_view what) const {
    throw Error(Exit::usage, format_text("{}: has more than {} {}", name_, most, what),
                "is it the right file?");
  }

  bool open(Kind kind) {
    if (open_.size() == kMaxDepth) {
      throw Error(Exit::usage, format_text("{}: is nested deeper than {} levels", name_, kMaxDepth),
                  "correct this, or make the file again");
    }
    open_.push_back(static_cast<std::uint32_t>(tree_.values_.size()));
    return add(kind, {.end = 0});
  }

  bool close() {
    tree_.values_[open_.back()].content.end = static_cast<std::uint32_t>(tree_.values_.size());
    open_.pop_back();
    return true;
  }

  Part keep(std::string_view text) {
    const Part part = {static_cast<std::uint32_t>(tree_.texts_.size()),
                       static_cast<std::uint32_t>(text.size())};
    tree_.texts_ += text;
    return part;
  }

  /// JSON libraries silently take the first or the last of two members with one key. The person who edited
  /// the file meant one of them.
  void need_single_keys(std::uint32_t object) {
    members_.clear();
    const auto end = static_cast<std::uint32_t>(tree_.values_.size());
    for (std::uint32_t member = first(object); member != end; member = tree_.next(member)) {
      members_.push_back(member);
      if (members_.size() > kMaxMembers) refuse_more_than(kMaxMembers, "fields in an object");
    }
    const auto key = [this](std::uint32_t member) { return tree_.key(member); };
    std::ranges::sort(members_, std::ranges::less(), key);
    const auto twice = std::ranges::adjacent_find(members_, std::ranges::equal_to(), key);
    if (twice == members_.end()) return;
    throw Error(Exit::usage, format_text("{}: the field \"{}\" appears twice", name_, shortened(key(*twice))),
                "remove one of them");
  }

  JsonTree& tree_;
  std::string_view name_;
  std::string_view if_broken_;
  Part key_ = {};
  std::vector<std::uint32_t> open_;     ///< the lists and objects around
  std::vector<std::uint32_t> members_;  ///< of the object that ends
};

JsonTree::JsonTree(std::string_view text, std::string_view name, std::string_view if_broken) {
  // The parser would take a NUL byte for the end of the text.
  if (text.find('\0') != std::string_view::npos)
    throw Error(Exit::usage, format_text("{}: is not JSON: it contains a NUL byte", name), if_broken);
  // What is not used of this is no memory yet.
  values_.reserve(std::min(kMaxValues, text.size() / 2 + 1));
  texts_.reserve(text.size());
  Builder builder(*this, name, if_broken);
  json::sax_parse(text, &builder);
}

double JsonTree::real(std::uint32_t value) const {
  const Value& number = values_[value];
  switch (number.kind) {
    case Kind::negative:
      return static_cast<double>(number.content.negative);
    case Kind::natural:
      return static_cast<double>(number.content.natural);
    default:
      return number.content.real;
  }
}

std::uint32_t JsonTree::find(std::uint32_t object, std::string_view key) const {
  const std::uint32_t end = next(object);
  for (std::uint32_t member = first(object); member != end; member = next(member)) {
    if (this->key(member) == key) return member;
  }
  return kNone;
}

std::uint32_t JsonTree::next(std::uint32_t value) const {
  const Kind kind = values_[value].kind;
  return kind == Kind::list || kind == Kind::object ? values_[value].content.end : value + 1;
}

}  // namespace zf
