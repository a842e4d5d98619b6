// Workload files: any text is a workload or an Error, and a workload is read again as it is printed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.hpp"
#include "fuzzed_file.hpp"
#include "measure/workload_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string printed;
  try {
    printed = zf::print_workload_file(zf::load_workload_file(fuzzed_file(data, size)));
  } catch (const zf::Error&) {
    return 0;
  }
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(printed.data());
  if (zf::print_workload_file(zf::load_workload_file(fuzzed_file(bytes, printed.size()))) != printed)
    std::abort();
  return 0;
}
