// Changes one value of a JSON text and no other byte: numbers above 2^64, blanks and escapes stay as they
// were written.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace zf {

/// The text of an object in a JSON text, from its brace on, and what there is of one of its members.
class JsonSplice {
 public:
  /// Finds the object at the path, such as {"zero_optimization", "zenflow"}. Precondition: `text` is valid
  /// JSON, and the path leads to an object. The text must live longer than this.
  JsonSplice(std::string_view text, std::initializer_list<std::string_view> path);

  /// Returns the text of a member's value; nothing if there is no such member.
  std::optional<std::string_view> find(std::string_view key) const;
  /// Returns the whole text with this value for the member. A new member comes last, written as the last one
  /// is.
  std::string with(std::string_view key, std::string_view value) const;

 private:
  std::string_view text_;
  std::size_t object_;  ///< where its brace is
};

}  // namespace zf
