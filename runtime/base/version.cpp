#include "base/version.hpp"

namespace zf {

std::string_view version() { return ZF_VERSION; }

}  // namespace zf
