// Descriptions of simulated machines: any text is a machine or an Error.
#include <cstddef>
#include <cstdint>

#include "base/error.hpp"
#include "fuzzed_file.hpp"
#include "simulate/simulated_machine.hpp"

/// hwloc 2.9 leaks 32 bytes of some descriptions that it refuses ("l3u:16(size=16MiB) core;4"). Leaks of our
/// own are found by simulate_test, where nothing is suppressed.
// NOLINTNEXTLINE(clang-diagnostic-reserved-identifier,readability-identifier-naming)
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:libhwloc.so";
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    zf::load_simulated_machine(fuzzed_file(data, size));
  } catch (const zf::Error&) {
  }
  return 0;
}
