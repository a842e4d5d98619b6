// Descriptions of simulated machines: any text is a machine or an Error.
#include <cstddef>
#include <cstdint>

#include "base/error.hpp"
#include "fuzzed_file.hpp"
#include "simulate/simulated_machine.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    zf::load_simulated_machine(fuzzed_file(data, size));
  } catch (const zf::Error&) {
  }
  return 0;
}
