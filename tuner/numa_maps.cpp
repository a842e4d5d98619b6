#include "tuner/numa_maps.hpp"

#include <fmt/core.h>

#include <charconv>
#include <sstream>
#include <string>

namespace zf {
namespace {

template <class Integer>
std::optional<Integer> number(std::string_view text) {
  Integer value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

/// "7f6c prefer:0 anon=12 dirty=12 N0=10 N1=2 kernelpagesize_kB=4"
void add_line(const std::string& line, MemoryByNode& memory) {
  std::istringstream words(line);
  std::string word;
  bool counts = false;
  std::uint64_t page_bytes = 4096;
  MemoryByNode pages;
  while (words >> word) {
    const auto equals = word.find('=');
    if (equals == std::string::npos) continue;
    const std::string_view name = std::string_view(word).substr(0, equals);
    const std::string_view value = std::string_view(word).substr(equals + 1);
    counts = counts || name == "anon" || (name == "file" && value.starts_with("/memfd:"));
    if (name == "kernelpagesize_kB") page_bytes = number<std::uint64_t>(value).value_or(4) << 10;
    if (!name.starts_with('N')) continue;
    const auto node = number<int>(name.substr(1));
    const auto count = number<std::uint64_t>(value);
    if (node && count) pages[Node{*node}] += *count;
  }
  if (!counts) return;
  for (const auto& [node, count] : pages) memory[node] += count * page_bytes;
}

}  // namespace

MemoryByNode memory_of_numa_maps(std::string_view text) {
  MemoryByNode memory;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) add_line(line, memory);
  return memory;
}

std::optional<MemoryByNode> memory_by_node(const SysRoot& sysroot, int pid) {
  const auto text = sysroot.read(fmt::format("/proc/{}/numa_maps", pid));
  return text ? std::optional(memory_of_numa_maps(*text)) : std::nullopt;
}

}  // namespace zf
