#include "os/meminfo.hpp"

#include <charconv>
#include <string>
#include <system_error>

namespace zf {

std::optional<std::uint64_t> meminfo_bytes(std::string_view text, std::string_view field) {
  const auto at = text.find(std::string(field) + ":");
  if (at == std::string_view::npos) return std::nullopt;
  const auto digits = text.find_first_of("0123456789", at + field.size());
  if (digits == std::string_view::npos) return std::nullopt;
  std::uint64_t kib = 0;
  const auto [end, error] = std::from_chars(text.data() + digits, text.data() + text.size(), kib);
  if (error != std::errc()) return std::nullopt;
  return kib * 1024;
}

}  // namespace zf
