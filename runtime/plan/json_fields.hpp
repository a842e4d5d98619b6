// Reads the fields of our JSON documents, so that every error names its field, and prints what we write.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/enum_names.hpp"
#include "base/id_set.hpp"
#include "plan/json_tree.hpp"

namespace zf {

/// A document that is written, with its fields in the order in which they were added.
using Object = nlohmann::ordered_json;

/// Return the document as text: indented by two blanks and ended by a newline, or on one line without a
/// newline. A host name or a process may have any bytes in its name, but JSON must be UTF-8: bytes that are
/// not UTF-8 become U+FFFD.
std::string print_json(const Object& object);
std::string print_json_line(const Object& object);

/// The keys of an object, and those among them that may be missing.
struct Keys {
  std::vector<std::string_view> all;
  std::vector<std::string_view> may_be_absent;
};

class Items;

/// A value and its path in the document. Every function below throws Error(usage) "name: path: what; next".
class Field {
 public:
  Field(const JsonTree& tree, std::uint32_t value, std::string path, std::string_view name,
        std::string_view next)
      : tree_(&tree), value_(value), path_(std::move(path)), name_(name), next_(next) {}

  /// Checks that this is an object with these keys and no others.
  const Field& need_keys(const Keys& keys) const;
  const Field& object(std::initializer_list<std::string_view> keys,
                      std::initializer_list<std::string_view> may_be_absent = {}) const {
    return need_keys({keys, may_be_absent});
  }
  const Field& need_object() const;
  /// Checks that this is an object with the "schema" `known`. Call it before all other checks: a file of
  /// another kind or version has other fields, and the user should be told why.
  const Field& schema(std::string_view known) const;
  bool has(std::string_view key) const;
  bool is_object() const;
  bool is_null() const;
  /// Returns a member. Precondition: has(key).
  Field operator[](std::string_view key) const;
  /// Returns a member. Fails if it is missing, or if this is no object.
  Field need(std::string_view key) const;
  /// Return the elements of a list, or the members of an object.
  Items items() const;
  Items members() const;
  /// Returns the key of a member.
  std::string_view key() const { return tree_->key(value_); }

  std::string text() const;
  bool boolean() const;
  /// Returns a whole number from `low` to `high`, both included. For int, std::int64_t and std::uint64_t.
  template <class Integer>
  Integer integer(Integer low, Integer high = std::numeric_limits<Integer>::max()) const;
  double number() const;
  CpuSet cpus() const;
  NodeSet nodes() const;
  /// Returns the value with this name.
  template <NamedEnum Enum>
  Enum one_of() const {
    if (const auto value = value_named<Enum>(text())) return *value;
    fail_word(kEnumNames<Enum>.size() <= 2 ? ", not \"" + all_names<Enum>("\" or \"") + "\""
                                           : "; it must be one of " + all_names<Enum>());
  }

  /// Fails unless the text is `word`.
  void need_word(std::string_view word) const;

  [[noreturn]] void fail(std::string_view what) const;
  /// Fails for the field at a path below this one, such as "training.forward_share".
  [[noreturn]] void fail_at(std::string_view path, std::string_view what) const;

 private:
  JsonTree::Kind kind() const { return tree_->kind(value_); }
  /// Returns the member that is this value. Its path has the key.
  Field child(std::uint32_t value, std::string_view key) const;
  [[noreturn]] void fail_member(std::string_view key, std::string_view what) const;
  /// Returns the value as one short line for a message.
  std::string shown() const;
  [[noreturn]] void fail_word(std::string_view allowed) const;
  [[noreturn]] void fail_range(std::string_view low, std::string_view high) const;

  const JsonTree* tree_;
  std::uint32_t value_;
  std::string path_;
  std::string_view name_;
  std::string_view next_;

  friend class Items;
};

/// The elements of a list or the members of an object, made one by one: a list may have millions.
class Items {
 public:
  class Iterator {
   public:
    Iterator(const Field& list, std::uint32_t value) : list_(&list), value_(value) {}
    Field operator*() const;
    Iterator& operator++();
    bool operator!=(const Iterator& other) const { return value_ != other.value_; }

   private:
    const Field* list_;
    std::uint32_t value_;
    std::size_t index_ = 0;
  };

  explicit Items(Field list) : list_(std::move(list)) {}
  Iterator begin() const { return {list_, JsonTree::first(list_.value_)}; }
  Iterator end() const { return {list_, list_.tree_->next(list_.value_)}; }

 private:
  Field list_;
};

/// A parsed file, from which the fields are read.
class JsonDocument {
 public:
  /// Parses a text that is not trusted: UTF-8, and no more than JsonTree says. `name` is
  /// the file's, for messages, and must live as long as the fields. Throws Error(usage) "name: line 3, column
  /// 5: ...", and `if_broken`, which says what to do if the text is not JSON. `next` says what to do if a
  /// field is wrong.
  JsonDocument(std::string_view text, std::string_view name,
               std::string_view if_broken = "it was cut off or edited: copy it again, or make it again",
               std::string_view next = "correct this, or make the file again");
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  /// Returns the whole document. The document must outlive its fields.
  Field root() const { return {tree_, 0, "", name_, next_}; }

 private:
  JsonTree tree_;
  std::string_view name_;
  std::string_view next_;
};

extern template int Field::integer(int, int) const;
extern template std::int64_t Field::integer(std::int64_t, std::int64_t) const;
extern template std::uint64_t Field::integer(std::uint64_t, std::uint64_t) const;

}  // namespace zf
