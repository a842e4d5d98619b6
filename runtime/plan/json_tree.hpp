// A parsed JSON document as one list of small values. A tree of objects of their own took 20 times the text,
// and its destructor allocated, so that a lack of memory ended the program.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zf {

/// Returns the text, or its beginning and "..." if it is longer.
std::string shortened(std::string_view text, std::size_t most = 80);

/// The values of a document, each before those inside of it. A value is named by its index; 0 is the whole.
class JsonTree {
 public:
  enum class Kind : std::uint8_t { null, boolean, negative, natural, real, text, list, object };

  /// Returned by find() if there is no such member.
  static constexpr std::uint32_t kNone = 0;

  /// Parses a text that is not trusted: at most 16 levels deep, 4 million values, and 100,000 members of an
  /// object, no key twice. Throws Error(usage) with `name`; if it is not JSON, `if_broken` says what to do
  /// next.
  JsonTree(std::string_view text, std::string_view name, std::string_view if_broken);

  Kind kind(std::uint32_t value) const { return values_[value].kind; }
  /// Return a value of this kind. A number of each kind is also a real one.
  bool boolean(std::uint32_t value) const { return values_[value].content.natural != 0; }
  std::uint64_t natural(std::uint32_t value) const { return values_[value].content.natural; }
  std::int64_t negative(std::uint32_t value) const { return values_[value].content.negative; }
  double real(std::uint32_t value) const;
  std::string_view text(std::uint32_t value) const { return text_of(values_[value].content.text); }

  /// Returns the key of a member of an object.
  std::string_view key(std::uint32_t member) const { return text_of(values_[member].key); }
  /// Returns the member with this key, or kNone.
  std::uint32_t find(std::uint32_t object, std::string_view key) const;
  /// The members of an object, or the elements of a list, are first(value), next() of that, and so on, up to
  /// next(value).
  static std::uint32_t first(std::uint32_t value) { return value + 1; }
  std::uint32_t next(std::uint32_t value) const;

 private:
  class Builder;

  /// A part of texts_.
  struct Part {
    std::uint32_t begin;
    std::uint32_t size;
  };
  union Content {
    std::uint64_t natural;
    std::int64_t negative;
    double real;
    Part text;
    std::uint32_t end;  ///< of a list or an object: behind all that is inside
  };
  struct Value {
    Content content;
    Part key;
    Kind kind;
  };

  std::string_view text_of(Part part) const { return std::string_view(texts_).substr(part.begin, part.size); }

  std::vector<Value> values_;
  std::string texts_;
};

}  // namespace zf
