#include "abi/opening.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "abi/exporting.hpp"
#include "abi/freeing.hpp"
#include "abi/group_settings.hpp"
#include "abi/plan_binding.hpp"
#include "abi/status.hpp"
#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/strictness.hpp"
#include "os/environment.hpp"

namespace zf {
namespace {

constexpr int kDefaultKeepS = 600;
constexpr std::int64_t kLongestKeepS = std::int64_t{60} * 60 * 24 * 30;

/// Returns `value_ms`, or `default_ms` if it is 0, in nanoseconds.
Nanoseconds timeout_of(std::int64_t value_ms, std::int64_t default_ms, std::string_view field) {
  if (value_ms < 0)
    throw AbiError(ZF_ERROR_USAGE, format_text("{} is {}; it must be 0 or more", field, value_ms));
  return std::min(value_ms == 0 ? default_ms : value_ms, kForeverMs) * kMillisecondNs;
}

/// Returns the value of a field that is ZF_NO, ZF_TRY or ZF_MUST.
Strictness strictness_of(std::int32_t value, std::string_view field) {
  switch (value) {
    case ZF_NO:
      return Strictness::off;
    case ZF_TRY:
      return Strictness::best_effort;
    case ZF_MUST:
      return Strictness::required;
    default:
      throw AbiError(ZF_ERROR_USAGE,
                     format_text("{} is {}; it must be ZF_NO, ZF_TRY or ZF_MUST", field, value));
  }
}

/// Returns the worker's command line.
std::vector<std::string> worker_arguments(const RankBinding& binding, const zf_options& options) {
  std::vector<std::string> words = {
      "--rank",        std::to_string(binding.rank),
      "--cpus",        print(binding.optimizer.cpus),
      "--huge-pages",  name_of(strictness_of(options.huge_pages, "huge_pages")),
      "--lock-memory", name_of(strictness_of(options.lock_memory, "lock_memory"))};
  if (binding.optimizer.threads)
    words.insert(words.end(), {"--threads", std::to_string(*binding.optimizer.threads)});
  if (!binding.home.cpus.empty()) words.insert(words.end(), {"--home", print(binding.home.cpus)});
  if (!binding.optimizer.mems.empty()) {
    words.insert(words.end(), {"--mems", print(binding.optimizer.mems), "--memory-policy",
                               name_of(binding.optimizer.memory_policy)});
  }
  return words;
}

Nanoseconds window_of(std::int64_t seconds) {
  constexpr std::int64_t default_s = 3600;
  if (seconds < 0)
    throw AbiError(ZF_ERROR_USAGE, format_text("restart_window_s is {}; it must be 0 or more", seconds));
  return std::min(seconds == 0 ? default_s : seconds, kForeverMs / 1000) * kSecondNs;
}

/// Only a process that exec put on its whole home is narrowed, and only if training leaves CPUs to the pool.
NarrowingWish narrowing_of(const BoundPlan& plan, const zf_options& options) {
  const Strictness narrow = strictness_of(options.narrow, "narrow");
  if (narrow == Strictness::off || plan.started_on != StartedOn::home || plan.binding.shared) return {};
  return {.wanted = true,
          .required = narrow == Strictness::required,
          .home = plan.binding.home.cpus,
          .training = plan.binding.training.cpus};
}

ArenaLayout layout_of(const std::vector<zf_group>& groups, const zf_options& options, std::size_t threads) {
  std::vector<GroupShape> shapes;
  shapes.reserve(groups.size());
  for (const zf_group& group : groups) {
    shapes.push_back(shape_of(group));
    if (options.chunk_bytes != 0) shapes.back().chunk_bytes = options.chunk_bytes;
  }
  return arena_layout(shapes, threads, options.note_bytes);
}

/// save_room: bytes for the copy of exports, which the worker gets before it is ready. Throws
/// AbiError(ZF_ERROR_SYSTEM) if there is no room for it.
Arena make_arena(const ArenaLayout& layout, std::uint64_t save_room, const Allowed& allowed) {
  await_freed();  // the memory of a handle that was closed just now
  check_memory(layout.bytes + save_room, allowed);
  Arena arena = Arena::create(layout);
  if (save_room != 0) check_saved_area(arena);
  arena.control().save_room = save_room;
  return arena;
}

/// Throws unless the options say how to keep an arena, or keep none.
void check_keep(const zf_options& options) {
  if (options.keep == nullptr) {
    if (options.keep_s == 0 && options.note_bytes == 0) return;
    throw AbiError(ZF_ERROR_USAGE, "keep_s or note_bytes is set, and keep is NULL",
                   "set zf_options.keep to a name");
  }
  check_keep_name(options.keep);
  if (options.keep_s < 0 || options.keep_s > kLongestKeepS)
    throw AbiError(ZF_ERROR_USAGE,
                   format_text("keep_s is {}; it must be 0 to {}", options.keep_s, kLongestKeepS));
}

bool is_program(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

/// Returns the absolute folder of this library; an empty path if it cannot be found.
std::filesystem::path find_folder_of_this_library() noexcept try {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&zf_version), &info) == 0 || info.dli_fname == nullptr) return {};
  return std::filesystem::canonical(info.dli_fname).parent_path();
} catch (const std::exception&) {
  return {};
}

/// Found when the library is loaded. The loader may know the library by a path relative to the working
/// directory (LD_LIBRARY_PATH=.), and the program may change its working directory later.
const std::filesystem::path kFolderOfThisLibrary = find_folder_of_this_library();

/// The working directory when the library was loaded; an empty path if there is none. A relative ZF_OPTIMIZER
/// begins there.
const std::filesystem::path kFolderAtLoad = [] {
  std::error_code error;
  return std::filesystem::current_path(error);
}();

/// Returns the absolute path of zf-optimizer, so that a later change of the working directory starts no other
/// program: ZF_OPTIMIZER if set, else the program near this library: in its folder, in ../bin (build tree,
/// /usr/local) or in ../../bin (Debian, where the library lies in /usr/lib/x86_64-linux-gnu). Throws
/// AbiError(ZF_ERROR_WORKER) that names the paths that were tried.
std::filesystem::path find_worker_program(const Environment& environment) {
  if (const auto named = environment.get("ZF_OPTIMIZER"); named && !named->empty()) {
    const auto path = (kFolderAtLoad / *named).lexically_normal();
    if (is_program(path)) return path;
    throw AbiError(ZF_ERROR_WORKER, format_text("ZF_OPTIMIZER={} is not an executable file", path.string()),
                   "set it to the path of zf-optimizer, or unset it");
  }
  if (kFolderOfThisLibrary.empty())
    throw AbiError(ZF_ERROR_WORKER, "cannot find the path of libzf_runtime.so",
                   "set ZF_OPTIMIZER to the path of zf-optimizer");
  std::string tried;
  for (const char* const place : {"zf-optimizer", "../bin/zf-optimizer", "../../bin/zf-optimizer"}) {
    auto path = (kFolderOfThisLibrary / place).lexically_normal();
    if (is_program(path)) return path;
    tried += (tried.empty() ? "" : ", ") + path.string();
  }
  throw AbiError(ZF_ERROR_WORKER, format_text("cannot find zf-optimizer; tried {}", tried),
                 "install it there, or set ZF_OPTIMIZER to its path");
}

}  // namespace

Opening prepare_opening(const zf_options& options, const std::vector<zf_group>& groups) {
  constexpr std::int32_t default_spin_us = 50;
  constexpr std::int32_t max_spin_us = 1'000'000;
  constexpr std::uint32_t default_restarts = 3;
  const Nanoseconds start_ns = timeout_of(options.start_timeout_ms, 120'000, "start_timeout_ms");
  const Nanoseconds close_ns = timeout_of(options.close_timeout_ms, 10'000, "close_timeout_ms");
  const Environment environment = Environment::of_this_process();
  check_keep(options);
  if (options.export_room != 0 && options.export_room != 1)
    throw AbiError(ZF_ERROR_USAGE, format_text("export_room is {}; it must be 0 or 1", options.export_room));
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
                                           : static_cast<std::uint32_t>(options.max_restarts),
                       .restart_window_ns = window_of(options.restart_window_s)};
  const bool by_exec = plan.started_on != StartedOn::nothing;
  const auto threads_of = [by_exec](int threads) {
    return by_exec ? static_cast<std::uint32_t>(threads) : 0U;
  };
  const std::int32_t spin_us = options.spin_us < 0 ? default_spin_us : std::min(options.spin_us, max_spin_us);
  // With shared CPUs spinning would keep the other side, or a neighbour, from the work that we wait for.
  const bool shared = plan.binding.shared || plan.binding.optimizer.threads;
  const Nanoseconds spin_ns = shared ? 0 : spin_us * Nanoseconds{1000};
  NarrowingWish narrowing = narrowing_of(plan, options);
  const ArenaLayout layout =
      layout_of(groups, options, static_cast<std::size_t>(pool_threads(plan.binding.optimizer)));
  const std::uint64_t save_room =
      options.export_room == 0 ? 0 : most_room_for_saving(layout.image_bytes, environment);
  std::optional<Keeping> keeping;
  Arena arena = [&] {
    if (options.keep == nullptr) return make_arena(layout, save_room, allowed);
    KeptArena kept =
        open_kept({.name = {options.keep, plan.binding.rank},
                   .folder = keep_folder(environment.get("ZF_KEEP_FOLDER")),
                   .seconds = options.keep_s == 0 ? kDefaultKeepS : static_cast<int>(options.keep_s),
                   .program = start.program,
                   .environment = start.environment,
                   .timeout_ns = start_ns},
                  layout, [&] { return make_arena(layout, save_room, allowed); });
    keeping.emplace(std::move(kept.keeping));
    kept.arena.control().is_kept = 1;
    return std::move(kept.arena);
  }();
  arena.control().spin_ns = spin_ns;
  return {.start = std::move(start),
          .close_timeout_ns = close_ns,
          .spin_ns = spin_ns,
          .narrowing = std::move(narrowing),
          .keeping = std::move(keeping),
          .home_threads = threads_of(plan.binding.home.threads),
          .training_threads = threads_of(plan.binding.training.threads),
          .arena = std::move(arena)};
}

}  // namespace zf
