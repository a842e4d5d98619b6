#define FMT_HEADER_ONLY  // compiles fmt's core into this source
#include "base/format.hpp"

namespace zf {

std::string format_erased(fmt::string_view format, fmt::format_args values) {
  return fmt::vformat(format, values);
}

}  // namespace zf
