#include "engine/isa.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/error.hpp"
#include "base/format.hpp"
#include "engine/instruction_sets.hpp"

namespace zf {

bool is_supported(Isa isa) { return row_of(isa).is_supported(); }

Isa chosen_isa() {
  if (const char* wish = std::getenv("ZF_ISA"); wish != nullptr && *wish != '\0') {
    const auto isa = value_named<Isa>(wish);
    if (!isa) {
      throw Error(Exit::usage, format_text("ZF_ISA=\"{}\" is not an instruction set", wish),
                  "use " + all_names<Isa>(", ", " or ") + ", or unset it");
    }
    if (!is_supported(*isa)) {
      throw Error(Exit::usage, format_text("ZF_ISA={}: this CPU does not have these instructions", wish),
                  "unset it to use the widest that this CPU has");
    }
    return *isa;
  }
  const auto rows = instruction_sets();
  return std::find_if(rows.rbegin(), rows.rend(), [](const auto& row) { return row.is_supported(); })->isa;
}

std::size_t preferred_prefetch_distance() {
#if defined(__x86_64__)
  constexpr std::size_t kDistance =
      256;  // 1 KiB of fp32; every distance from 512 B to 3 KiB measured the same
  return __builtin_cpu_is("intel") != 0 ? kDistance : 0;
#else
  return 0;
#endif
}

}  // namespace zf
