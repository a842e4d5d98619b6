// The memory policy of an optimizer's pool, as plans, bindings and command lines name it.
#pragma once

#include "base/enum_names.hpp"

namespace zf {

/// What happens when the nodes are full: `preferred` takes memory from other nodes; with `bind` the kernel's
/// out-of-memory killer ends a process that needs more. With `none` no node is preferred, because it is not
/// known which is near: a page goes to the node of the CPU that touches it first.
enum class MemoryPolicy { preferred, bind, none };

template <>
inline constexpr auto kEnumNames<MemoryPolicy> = std::to_array<EnumName<MemoryPolicy>>(
    {{MemoryPolicy::preferred, "preferred"}, {MemoryPolicy::bind, "bind"}, {MemoryPolicy::none, "none"}});

}  // namespace zf
