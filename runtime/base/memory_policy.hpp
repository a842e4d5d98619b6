// The memory policy of an optimizer's pool, as plans, bindings and command lines name it, and the one that a
// process has got from others.
#pragma once

#include "base/enum_names.hpp"
#include "base/id_set.hpp"

namespace zf {

/// What happens when the nodes are full: `preferred` takes memory from other nodes; with `bind` the kernel's
/// out-of-memory killer ends a process that needs more. With `none` no node is preferred, because it is not
/// known which is near: a page goes to the node of the CPU that touches it first.
enum class MemoryPolicy { preferred, bind, none };

template <>
inline constexpr auto kEnumNames<MemoryPolicy> = std::to_array<EnumName<MemoryPolicy>>(
    {{MemoryPolicy::preferred, "preferred"}, {MemoryPolicy::bind, "bind"}, {MemoryPolicy::none, "none"}});

/// What a process was told by numactl, srun --mem-bind or a job before: `interleave` also stands for weighted
/// interleaving, and `local` names no node.
enum class GivenPolicy { preferred, bind, interleave, local };

template <>
inline constexpr auto kEnumNames<GivenPolicy> =
    std::to_array<EnumName<GivenPolicy>>({{GivenPolicy::preferred, "preferred"},
                                          {GivenPolicy::bind, "bind"},
                                          {GivenPolicy::interleave, "interleave"},
                                          {GivenPolicy::local, "local"}});

/// The memory policy of a thread, if it is not the system's default.
struct ThreadPolicy {
  GivenPolicy policy = GivenPolicy::local;
  NodeSet nodes = {};  ///< that the cpuset allows; empty: local
  bool operator==(const ThreadPolicy&) const = default;
};

}  // namespace zf
