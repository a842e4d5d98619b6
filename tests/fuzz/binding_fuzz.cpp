// ZF_BINDING, which any launcher may have changed: any text is a binding or an Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.hpp"
#include "plan/process_binding.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    zf::parse_binding({reinterpret_cast<const char*>(data), size});
  } catch (const zf::Error&) {
  }
  return 0;
}
