// Plans and the workloads in them: any text is a plan or an Error, and a plan is read again as it is printed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "plan/plan_json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::optional<zf::Plan> plan;
  try {
    plan = zf::parse_plan({reinterpret_cast<const char*>(data), size}, "fuzzed");
  } catch (const zf::Error&) {
    return 0;
  }
  const std::string printed = zf::print_plan(*plan);
  if (zf::print_plan(zf::parse_plan(printed, "printed")) != printed) std::abort();
  return 0;
}
