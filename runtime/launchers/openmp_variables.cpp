#include "launchers/openmp_variables.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/cpu_list.hpp"

namespace zf {
namespace {

/// Returns the text in lower case, without blanks.
std::string plain(const std::string& text) {
  std::string found;
  for (const char c : text) {
    if (c != ' ' && c != '\t') found += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return found;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

/// Returns the CPUs of FIRST[:COUNT[:STRIDE]]; nothing if it is something else.
std::optional<CpuSet> cpus_of_interval(const std::string& interval) {
  std::array<int, 3> numbers{0, 1, 1};  // first, count, stride
  const auto words = split(interval, ':');
  if (words.empty() || words.size() > numbers.size()) return std::nullopt;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const char* const end = words[i].data() + words[i].size();
    const auto [stop, error] = std::from_chars(words[i].data(), end, numbers[i]);
    if (error != std::errc() || stop != end || numbers[i] < 0 || numbers[i] > kMaxOsIndex)
      return std::nullopt;
  }
  const auto [first, count, stride] = numbers;
  CpuSet cpus;
  for (int i = 0; i < count && first + i * stride <= kMaxOsIndex; ++i) cpus.insert(Pu{first + i * stride});
  return cpus;
}

/// Returns the CPUs of "{0:4,8}"; nothing if the text has several places, or a place by another name.
std::optional<CpuSet> single_place(const std::string& places) {
  const std::string text = plain(places);
  if (!text.starts_with('{') || text.find('}') != text.size() - 1) return std::nullopt;
  CpuSet cpus;
  for (const std::string& interval : split(text.substr(1, text.size() - 2), ',')) {
    const auto part = cpus_of_interval(interval);
    if (!part) return std::nullopt;
    cpus |= *part;
  }
  return cpus;
}

bool is_whole_home(const std::string& places, const std::vector<CpuSet>& homes) {
  const auto place = single_place(places);
  return place && (homes.empty() || std::any_of(homes.begin(), homes.end(),
                                                [&](const CpuSet& home) { return place->contains(home); }));
}

bool is_off(const std::string& proc_bind) { return plain(proc_bind) == "false"; }

}  // namespace

bool kmp_affinity_binds(const std::string& affinity) {
  constexpr std::array<std::string_view, 12> kBindsNothing{
      "none",       "disabled", "verbose",   "noverbose",    "warnings", "reset",
      "nowarnings", "respect",  "norespect", "granularity=", "fine",     "noreset"};
  const auto words = split(plain(affinity), ',');
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    const bool is_number = word.find_first_not_of("0123456789") == std::string::npos;
    return !is_number && std::none_of(kBindsNothing.begin(), kBindsNothing.end(),
                                      [&](std::string_view start) { return word.starts_with(start); });
  });
}

std::vector<OpenmpBinding> openmp_bindings(const Environment& environment, const std::vector<CpuSet>& homes) {
  const auto value_of = [&](const char* name) { return environment.get(name).value_or(""); };
  const std::string kmp = value_of("KMP_AFFINITY");
  const std::string gomp = value_of("GOMP_CPU_AFFINITY");
  const std::string bind = value_of("OMP_PROC_BIND");
  const std::string places = value_of("OMP_PLACES");
  std::vector<OpenmpBinding> found;
  if (kmp_affinity_binds(kmp))
    found.push_back({"KMP_AFFINITY", kmp, "Intel's OpenMP binds threads by it and not by the plan"});
  if (is_off(bind)) return found;
  if (!gomp.empty()) {
    found.push_back({"GOMP_CPU_AFFINITY", gomp, "libgomp binds threads to these CPUs and not to the plan's"});
  }
  if ((!bind.empty() || !places.empty()) && !is_whole_home(places, homes)) {
    const bool by_places = bind.empty();
    found.push_back({by_places ? "OMP_PLACES" : "OMP_PROC_BIND", by_places ? places : bind,
                     "OpenMP binds the trainer's first thread to one place, which data loaders and autograd "
                     "threads inherit"});
  }
  return found;
}

std::vector<std::string> openmp_variables_to_unset(const Environment& environment,
                                                   const std::vector<CpuSet>& homes) {
  if (openmp_bindings(environment, homes).empty()) return {};
  const std::string kmp = environment.get("KMP_AFFINITY").value_or("");
  const bool off = is_off(environment.get("OMP_PROC_BIND").value_or(""));
  std::vector<std::string> names;
  for (const char* const name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"}) {
    if (!off && environment.get(name)) names.emplace_back(name);
  }
  if (kmp_affinity_binds(kmp)) names.emplace_back("KMP_AFFINITY");
  return names;
}

}  // namespace zf
