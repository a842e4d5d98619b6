#include "base/cpu_list.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/trim.hpp"

namespace zf {
namespace {

std::optional<int> number(std::string_view text) {
  text = trim(text, kKernelBlanks);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.front() == '-') return std::nullopt;
  return value <= kMaxOsIndex ? std::optional(value) : std::nullopt;
}

/// Splits "a<separator>b" in two; no second half if the separator is absent.
std::pair<std::string_view, std::optional<std::string_view>> split(std::string_view text, char separator) {
  const auto at = text.find(separator);
  if (at == std::string_view::npos) return {text, std::nullopt};
  return {text.substr(0, at), text.substr(at + 1)};
}

/// The indexes that a list has named so far: a bit for each up to the highest one. "0-65535,0-65535,…" must
/// not grow with the text.
using Named = std::vector<bool>;

/// Adds one part, "5", "4-11", "0-15:2" or "0-15:2/4"; false if it is malformed.
bool add_part(std::string_view part, Named& named) {
  const auto [range, stride] = split(part, ':');
  const auto [low_text, high_text] = split(range, '-');
  const auto low = number(low_text);
  const auto high = high_text ? number(*high_text) : low;
  if (!low || !high || *high < *low || (stride && !high_text)) return false;

  int used = 1;
  int group = 1;
  if (stride) {
    const auto [first, second] = split(*stride, '/');
    const auto one = number(first);
    const auto two = second ? number(*second) : std::nullopt;
    if (!one || (second && !two)) return false;
    used = second ? *one : 1;
    group = second ? *two : *one;
    if (used < 1 || group < used) return false;
  }
  if (named.size() <= static_cast<std::size_t>(*high)) named.resize(static_cast<std::size_t>(*high) + 1);
  for (int id = *low; id <= *high; ++id) {
    if ((id - *low) % group < used) named[static_cast<std::size_t>(id)] = true;
  }
  return true;
}

template <class Id>
IdSet<Id> parse(std::string_view text, std::string_view what) {
  if (trim(text, kKernelBlanks).empty()) return {};
  Named named;
  for (std::optional<std::string_view> rest = text; rest;) {
    const auto [part, tail] = split(*rest, ',');
    if (!add_part(trim(part, kKernelBlanks), named)) {
      throw Error(
          Exit::usage,
          format_text("{}: \"{}\" is not a list: \"{}\" is wrong", what, text, trim(part, kKernelBlanks)),
          "write OS indexes like 0,4-11,21-26");
    }
    rest = tail;
  }
  std::vector<Id> ids;
  for (auto at = std::find(named.begin(), named.end(), true); at != named.end();
       at = std::find(at + 1, named.end(), true))
    ids.push_back(Id{static_cast<int>(at - named.begin())});
  return IdSet<Id>(std::move(ids));
}

template <class Id>
std::string print_ids(const IdSet<Id>& ids) {
  std::string text;
  for (auto it = ids.begin(); it != ids.end();) {
    const int low = it->os_index;
    int high = low;
    for (++it; it != ids.end() && it->os_index == high + 1; ++it) high = it->os_index;
    if (!text.empty()) text += ',';
    text += high == low ? format_text("{}", low) : format_text("{}-{}", low, high);
  }
  return text;
}

}  // namespace

CpuSet parse_cpu_list(std::string_view text, std::string_view what) { return parse<Pu>(text, what); }
NodeSet parse_node_list(std::string_view text, std::string_view what) { return parse<Node>(text, what); }
std::string print(const CpuSet& cpus) { return print_ids(cpus); }
std::string print(const NodeSet& nodes) { return print_ids(nodes); }

std::string print_cpus(const CpuSet& cpus) {
  return format_text("CPU{} {}", cpus.size() == 1 ? "" : "s", print(cpus));
}

std::string print_nodes(const NodeSet& nodes) {
  return format_text("node{} {}", nodes.size() == 1 ? "" : "s", print(nodes));
}

std::string print_mask(const CpuSet& cpus) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(cpus.last().os_index / 32) + 1);
  for (const Pu cpu : cpus)
    words[static_cast<std::size_t>(cpu.os_index / 32)] |= std::uint32_t{1} << (cpu.os_index % 32);
  std::string mask;
  for (auto word = words.rbegin(); word != words.rend(); ++word)
    mask += format_text("{}{:08x}", mask.empty() ? "" : ",", *word);
  return mask;
}

}  // namespace zf
