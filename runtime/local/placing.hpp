// Places memory that was not touched yet: huge pages, a memory policy, and a first touch by the threads of a
// step.
#pragma once

#include <cstddef>
#include <string>

#include "base/id_set.hpp"
#include "engine/team.hpp"
#include "local/overlaps.hpp"
#include "plan/rank_binding.hpp"

namespace zf {

/// Where memory shall lie. Without nodes it lies where it is touched first.
struct MemoryWish {
  NodeSet mems;
  MemoryPolicy policy = MemoryPolicy::preferred;
};

/// Returns the part of a range that consists of whole units of `unit` bytes (a power of two); it may be
/// empty. Pure.
MemoryRange whole_units(const MemoryRange& range, std::size_t unit);

/// Places the whole pages of [start, start + bytes). Returns what the machine refused, in words; "": nothing.
/// Bytes that the memory holds stay. Precondition: the memory is writable.
std::string place_memory(Team& team, const MemoryWish& wish, void* start, std::size_t bytes);

/// Returns one line if the plan gives CPUs to an optimizer process of its own, and this process, which may
/// use `mask` and steps in place, cannot use them; else "". Pure.
std::string idle_pool_note(const RankBinding& binding, const CpuSet& mask);

}  // namespace zf
