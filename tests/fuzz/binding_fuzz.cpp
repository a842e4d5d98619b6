// ZF_BINDING, which any launcher may have changed: any text is a binding or an Error, and a binding is read
// again as it is printed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "plan/process_binding.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::optional<zf::ProcessBinding> binding;
  std::string printed;
  try {
    binding = zf::parse_binding({reinterpret_cast<const char*>(data), size});
    printed = zf::print_binding(*binding);
  } catch (const zf::Error& error) {
    // Only a list like 0-65534:2 is longer when it is printed.
    if (binding && error.exit() != zf::Exit::infeasible) std::abort();
    return 0;
  }
  if (zf::parse_binding(printed) != *binding) std::abort();
  return 0;
}
