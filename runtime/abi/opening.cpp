#include "opening.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/cpu_list.hpp"
#include "group_settings.hpp"
#include "os/environment.hpp"
#include "plan_binding.hpp"
#include "status.hpp"
#include "worker_program.hpp"

namespace zf {
namespace {

/// Returns `value_ms`, or `default_ms` if it is 0, in nanoseconds.
Nanoseconds timeout_of(std::int64_t value_ms, std::int64_t default_ms, std::string_view field) {
  if (value_ms < 0)
    throw AbiError(ZF_ERROR_USAGE, fmt::format("{} is {}; it must be 0 or more", field, value_ms));
  return std::min(value_ms == 0 ? default_ms : value_ms, kForeverMs) * kMillisecondNs;
}

const char* strictness_name(std::int32_t value, std::string_view field) {
  switch (value) {
    case ZF_NO:
      return "no";
    case ZF_TRY:
      return "try";
    case ZF_MUST:
      return "must";
    default:
      throw AbiError(ZF_ERROR_USAGE,
                     fmt::format("{} is {}; it must be ZF_NO, ZF_TRY or ZF_MUST", field, value));
  }
}

/// Returns the worker's command line.
std::vector<std::string> worker_arguments(const RankBinding& binding, const zf_options& options) {
  std::vector<std::string> words = {"--rank",        std::to_string(binding.rank),
                                    "--cpus",        print(binding.optimizer.cpus),
                                    "--huge-pages",  strictness_name(options.huge_pages, "huge_pages"),
                                    "--lock-memory", strictness_name(options.lock_memory, "lock_memory")};
  if (!binding.optimizer.mems.empty()) {
    const bool bind = binding.optimizer.memory_policy == MemoryPolicy::bind;
    words.insert(words.end(),
                 {"--mems", print(binding.optimizer.mems), "--memory-policy", bind ? "bind" : "preferred"});
  }
  return words;
}

Arena make_arena(const std::vector<zf_group>& groups, std::uint64_t chunk_bytes, std::size_t threads,
                 const Allowed& allowed) {
  std::vector<GroupShape> shapes;
  shapes.reserve(groups.size());
  for (const zf_group& group : groups) {
    shapes.push_back(shape_of(group));
    if (chunk_bytes != 0) shapes.back().chunk_bytes = chunk_bytes;
  }
  const ArenaLayout layout = arena_layout(shapes, threads);
  check_memory(layout.bytes, allowed);
  return Arena::create(layout);
}

}  // namespace

Opening prepare_opening(const zf_options& options, const std::vector<zf_group>& groups) {
  constexpr std::int32_t default_spin_us = 50;
  constexpr std::int32_t max_spin_us = 1'000'000;
  constexpr std::uint32_t default_restarts = 3;
  const Nanoseconds start_ns = timeout_of(options.start_timeout_ms, 120'000, "start_timeout_ms");
  const Nanoseconds close_ns = timeout_of(options.close_timeout_ms, 10'000, "close_timeout_ms");
  const Environment environment = Environment::of_this_process();
  const BoundPlan plan = find_binding(options.plan_path, options.rank, environment);
  const Allowed allowed = allowed_to_optimizer();
  check_binding(plan, allowed);
  WorkerStart start = {.program = find_worker_program(environment).string(),
                       .arguments = worker_arguments(plan.binding, options),
                       .environment = environment.words(),
                       .timeout_ns = start_ns,
                       .max_restarts = options.max_restarts < 0 ? 0
                                       : options.max_restarts == 0
                                           ? default_restarts
                                           : static_cast<std::uint32_t>(options.max_restarts)};
  const std::int32_t spin_us = options.spin_us < 0 ? default_spin_us : std::min(options.spin_us, max_spin_us);
  // With shared CPUs spinning would keep the other side from the work that we wait for.
  const Nanoseconds spin_ns = plan.binding.shared ? 0 : spin_us * Nanoseconds{1000};
  Arena arena = make_arena(groups, options.chunk_bytes, plan.binding.optimizer.cpus.size(), allowed);
  arena.control().spin_ns = spin_ns;
  return {std::move(start), close_ns, spin_ns, std::move(arena)};
}

}  // namespace zf
