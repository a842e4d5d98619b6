#include "launchers/launched_count.hpp"

#include <charconv>
#include <string_view>

namespace zf {
namespace {

/// Returns count number `index` of a text like "4(x2),1".
std::optional<int> count_on_node(std::string_view counts, int index) {
  while (!counts.empty()) {
    int count = 0;
    int nodes = 1;
    const char* const end = counts.data() + counts.size();
    const char* rest = std::from_chars(counts.data(), end, count).ptr;
    if (count < 1) return std::nullopt;
    if (constexpr std::string_view times = "(x"; std::string_view(rest, end).starts_with(times)) {
      const auto [after, error] = std::from_chars(rest + times.size(), end, nodes);
      rest = after;
      if (error != std::errc() || nodes < 1 || rest == end || *rest++ != ')') return std::nullopt;
    }
    if (rest != end && *rest++ != ',') return std::nullopt;
    if (index < nodes) return count;
    index -= nodes;
    counts = std::string_view(rest, end);
  }
  return std::nullopt;
}

std::optional<EnvNumber> per_node(const Environment& environment, const Launcher& launcher) {
  const auto counts = environment.get(launcher.counts[0]);
  const auto node = number_in(environment, launcher.counts[1], 0);
  if (!counts || !node) return std::nullopt;
  const auto count = count_on_node(*counts, node->value);
  return count ? std::optional(EnvNumber{*count, count_name(launcher)}) : std::nullopt;
}

std::optional<EnvNumber> quotient(const Environment& environment, const Launcher& launcher) {
  const auto ranks = number_in(environment, launcher.counts[0], 1);
  const auto nodes = number_in(environment, launcher.counts[1], 1);
  if (!ranks || !nodes || ranks->value % nodes->value != 0) return std::nullopt;
  return EnvNumber{ranks->value / nodes->value, count_name(launcher)};
}

std::optional<EnvNumber> first_set(const Environment& environment, const Launcher& launcher) {
  for (const char* const name : launcher.counts) {
    if (name == nullptr) break;
    if (auto count = number_in(environment, name, 1)) return count;
  }
  return std::nullopt;
}

}  // namespace

std::optional<EnvNumber> launched_count(const Environment& environment, const Launcher& launcher) {
  switch (launcher.rule) {
    case CountRule::first_set:
      return first_set(environment, launcher);
    case CountRule::quotient:
      return quotient(environment, launcher);
    case CountRule::per_node:
      return per_node(environment, launcher);
  }
  return std::nullopt;
}

}  // namespace zf
