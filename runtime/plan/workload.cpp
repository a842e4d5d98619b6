#include "plan/workload.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace zf {
namespace {

constexpr std::array<std::pair<Mode, const char*>, 4> kModes{
    {{Mode::overlap, "overlap"}, {Mode::exact, "exact"}, {Mode::backward, "backward"}, {Mode::wait, "wait"}}};

constexpr std::array<std::pair<Framework, const char*>, 6> kFrameworks{
    {{Framework::native, "native"},
     {Framework::deepspeed_offload, "deepspeed-offload"},
     {Framework::deepspeed_zenflow, "deepspeed-zenflow"},
     {Framework::superoffload, "superoffload"},
     {Framework::torch, "torch"},
     {Framework::unknown, "unknown"}}};

template <class Table, class Value>
const char* name_in(const Table& table, Value value) {
  return std::find_if(table.begin(), table.end(), [&](const auto& entry) { return entry.first == value; })
      ->second;
}

template <class Table>
auto value_in(const Table& table, std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const auto& entry) { return entry.second == name; });
  return found == table.end() ? std::nullopt : std::optional(found->first);
}

template <class Table>
std::string names_in(const Table& table) {
  std::string names;
  for (const auto& [value, name] : table) names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

}  // namespace

const char* name_of(Mode mode) { return name_in(kModes, mode); }
const char* name_of(Framework framework) { return name_in(kFrameworks, framework); }
std::optional<Mode> mode_named(std::string_view name) { return value_in(kModes, name); }
std::optional<Framework> framework_named(std::string_view name) { return value_in(kFrameworks, name); }
std::string mode_names() { return names_in(kModes); }
std::string framework_names() { return names_in(kFrameworks); }

}  // namespace zf
