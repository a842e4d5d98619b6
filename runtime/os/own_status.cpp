#include "os/own_status.hpp"

#include "base/format.hpp"

namespace zf {

std::optional<std::string> status_field(const SysRoot& sysroot, std::string_view name) {
  const auto text = sysroot.read(kStatusFile);
  const auto at = text ? text->find(format_text("\n{}:", name)) : std::string::npos;
  if (at == std::string::npos) return std::nullopt;
  const auto begin = at + name.size() + 2;
  return text->substr(begin, text->find('\n', begin) - begin);
}

}  // namespace zf
