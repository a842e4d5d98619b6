// CPU lists: any text is a list or an Error, and a list is read again as it is printed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/cpu_list.hpp"
#include "base/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::optional<zf::CpuSet> cpus;
  try {
    cpus = zf::parse_cpu_list({reinterpret_cast<const char*>(data), size}, "fuzzed");
  } catch (const zf::Error&) {
    return 0;
  }
  if (zf::parse_cpu_list(zf::print(*cpus), "printed") != *cpus) std::abort();
  return 0;
}
