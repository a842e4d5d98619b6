// The C functions: they check arguments for NULL, read structs of other versions, and turn exceptions into
// statuses.
#include "zf_runtime.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>
#include <string_view>
#include <vector>

#include "abi/group_settings.hpp"
#include "abi/runtime.hpp"
#include "abi/scalars.hpp"
#include "abi/status.hpp"
#include "abi/versioned.hpp"
#include "base/format.hpp"
#include "base/version.hpp"

// A release never changes these layouts. It only adds members at the end.
static_assert(sizeof(zf_options) == 112 && offsetof(zf_options, export_room) == 104 &&
              offsetof(zf_options, keep) == 80 && offsetof(zf_options, max_restarts) == 40 &&
              offsetof(zf_options, narrow) == 64 && offsetof(zf_options, restart_window_s) == 72 &&
              offsetof(zf_options, plan_path) == 8 && offsetof(zf_options, start_timeout_ms) == 24);
static_assert(sizeof(zf_group) == 64 && offsetof(zf_group, moment_sets) == 24 &&
              offsetof(zf_group, state_format) == 32 && offsetof(zf_group, first_element) == 40 &&
              offsetof(zf_group, ranges) == 48);
static_assert(sizeof(zf_adam) == 56 && offsetof(zf_adam, lr) == 8 &&
              offsetof(zf_adam, bias_correction) == 48);
static_assert(sizeof(zf_submit_args) == 88 && offsetof(zf_submit_args, note) == 56 &&
              offsetof(zf_submit_args, groups) == 8 && offsetof(zf_submit_args, scalars) == 24 &&
              offsetof(zf_submit_args, scalar_count) == 40 && offsetof(zf_submit_args, scalars_size) == 48 &&
              offsetof(zf_submit_args, begin) == 64 && offsetof(zf_submit_args, prepares) == 80);
constexpr std::size_t kFirstOptionsBytes = 112;
constexpr std::size_t kFirstSubmitArgsBytes = 88;
static_assert(sizeof(zf_stats) == 1192 && offsetof(zf_stats, was_kept) == 988 &&
              offsetof(zf_stats, keep_note) == 992 && offsetof(zf_stats, restarts) == 288 &&
              offsetof(zf_stats, degraded) == 292 && offsetof(zf_stats, cpu_note) == 576 &&
              offsetof(zf_stats, isa) == 72);
static_assert(static_cast<int>(zf::ArrayKind::params) == ZF_PARAMS &&
              static_cast<int>(zf::ArrayKind::moment1) == ZF_MOMENT_1 &&
              static_cast<int>(zf::ArrayKind::moment2) == ZF_MOMENT_2 &&
              static_cast<int>(zf::ArrayKind::grads0) == ZF_GRADS_0 &&
              static_cast<int>(zf::ArrayKind::grads1) == ZF_GRADS_1 &&
              static_cast<int>(zf::ArrayKind::stale) == ZF_STALE &&
              static_cast<int>(zf::ArrayKind::copy) == ZF_COPY &&
              static_cast<int>(zf::ArrayKind::moment1_set1) == ZF_MOMENT_1_SET_1 &&
              static_cast<int>(zf::ArrayKind::moment2_set1) == ZF_MOMENT_2_SET_1);
static_assert(static_cast<int>(zf::ElementType::none) == ZF_NONE &&
              static_cast<int>(zf::ElementType::f32) == ZF_F32 &&
              static_cast<int>(zf::ElementType::bf16) == ZF_BF16 &&
              static_cast<int>(zf::ElementType::f16) == ZF_F16);

namespace {

/// Returns the object behind the opaque handle.
zf::Runtime& runtime_of(zf_runtime* handle) {
  if (handle == nullptr) throw zf::AbiError(ZF_ERROR_USAGE, "the handle is NULL");
  auto& runtime = *reinterpret_cast<zf::Runtime*>(handle);
  runtime.check_process();
  return runtime;
}

zf_options read_options(const zf_options* given) {
  static constexpr zf_options defaults = ZF_OPTIONS_INIT;
  if (given == nullptr) return defaults;
  const zf_options options = zf::read_versioned(given, defaults, kFirstOptionsBytes, "zf_options");
  zf::check_abi_version(options.abi_version);
  return options;
}

}  // namespace

extern "C" {

uint32_t zf_abi_version(void) { return ZF_ABI_VERSION; }
const char* zf_version(void) { return zf::version().data(); }
const char* zf_last_error(void) { return zf::last_error(); }

const char* zf_status_name(zf_status status) {
  static constexpr const char* names[] = {"ZF_OK",           "ZF_TIMEOUT",        "ZF_WORKER_DIED",
                                          "ZF_ERROR_USAGE",  "ZF_ERROR_PLAN",     "ZF_ERROR_SYSTEM",
                                          "ZF_ERROR_WORKER", "ZF_ERROR_ABI",      "ZF_ERROR_FORKED",
                                          "ZF_ERROR_BUSY",   "ZF_ERROR_INTERNAL", "ZF_ERROR_STATE"};
  static_assert(std::size(names) == ZF_ERROR_STATE + 1, "a name for each number, in their order");
  const auto number = static_cast<std::size_t>(status);
  return number < std::size(names) ? names[number] : "?";
}

zf_status zf_open(const zf_options* options, const zf_group* groups, size_t n_groups, zf_runtime** out) {
  if (out != nullptr) *out = nullptr;
  return zf::guarded([&] {
    zf::required(out, "out");
    const std::vector<zf_group> ours = zf::read_groups(groups, n_groups);
    auto runtime = std::make_unique<zf::Runtime>(zf::prepare_opening(read_options(options), ours));
    *out = reinterpret_cast<zf_runtime*>(runtime.release());
  });
}

zf_status zf_end(zf_runtime* handle) {
  return zf::guarded([&] { runtime_of(handle).end(); });
}

zf_status zf_close(zf_runtime* handle) {
  if (handle == nullptr) return ZF_OK;
  return zf::guarded([&] {
    const std::unique_ptr<zf::Runtime> runtime(&runtime_of(handle));
    runtime->close();
  });
}

zf_status zf_buffer(zf_runtime* handle, size_t group, zf_buffer_kind kind, void** pointer, size_t* bytes) {
  return zf::guarded(
      [&] { runtime_of(handle).buffer(group, kind, zf::required(pointer, "pointer"), bytes); });
}

zf_status zf_adam_scalars(const zf_adam* settings, uint64_t step, zf_scalars* scalars) {
  return zf::guarded(
      [&] { *zf::required(scalars, "scalars") = zf::scalars_of(*zf::required(settings, "settings"), step); });
}

zf_status zf_submit(zf_runtime* handle, const zf_submit_args* args, uint64_t* ticket) {
  return zf::guarded([&] {
    static constexpr zf_submit_args defaults = ZF_SUBMIT_ARGS_INIT;
    zf::Runtime& runtime = runtime_of(handle);
    const std::uint64_t given = runtime.submit(
        zf::read_versioned(zf::required(args, "args"), defaults, kFirstSubmitArgsBytes, "zf_submit_args"));
    if (ticket != nullptr) *ticket = given;
  });
}

zf_status zf_go(zf_runtime* handle, uint64_t* ticket) {
  return zf::guarded([&] {
    const std::uint64_t given = runtime_of(handle).go();
    if (ticket != nullptr) *ticket = given;
  });
}

zf_status zf_wait(zf_runtime* handle, uint64_t ticket, int64_t timeout_ms) {
  return zf::guarded([&] { return runtime_of(handle).wait(ticket, timeout_ms); });
}

zf_status zf_progress(zf_runtime* handle, uint64_t ticket, size_t group, uint64_t at_least,
                      int64_t timeout_ms, uint64_t* elements) {
  return zf::guarded([&] {
    return runtime_of(handle).progress(ticket, group, at_least, timeout_ms,
                                       zf::required(elements, "elements"));
  });
}

zf_status zf_norm(zf_runtime* handle, size_t group, uint32_t buffer, double* sum_of_squares,
                  int32_t* finite) {
  return zf::guarded([&] {
    runtime_of(handle).norm(group, buffer, zf::required(sum_of_squares, "sum_of_squares"),
                            zf::required(finite, "finite"));
  });
}

zf_status zf_overwriting(zf_runtime* handle, int32_t begins) {
  return zf::guarded([&] { runtime_of(handle).overwriting(begins != 0); });
}

zf_status zf_get_note(zf_runtime* handle, void* note, size_t bytes, uint64_t* step) {
  return zf::guarded(
      [&] { runtime_of(handle).note(zf::required(note, "note"), bytes, zf::required(step, "step")); });
}

zf_status zf_get_prepared(zf_runtime* handle, void* note, size_t bytes, uint64_t* step) {
  return zf::guarded([&] {
    runtime_of(handle).prepared_note(zf::required(note, "note"), bytes, zf::required(step, "step"));
  });
}

zf_status zf_get_step(zf_runtime* handle, size_t group, uint64_t* step) {
  return zf::guarded([&] { *zf::required(step, "step") = runtime_of(handle).step(group); });
}

zf_status zf_read_state(zf_runtime* handle, size_t group, zf_buffer_kind kind, uint64_t begin, uint64_t count,
                        float* values) {
  return zf::guarded([&] {
    if (count != 0) zf::required(values, "values");
    runtime_of(handle).read_state(group, kind, begin, {values, count});
  });
}

zf_status zf_write_state(zf_runtime* handle, size_t group, zf_buffer_kind kind, uint64_t begin,
                         uint64_t count, const float* values) {
  return zf::guarded([&] {
    if (count != 0) zf::required(values, "values");
    runtime_of(handle).write_state(group, kind, begin, {values, count});
  });
}

zf_status zf_export_state(zf_runtime* handle, const char* path) {
  return zf::guarded([&] { runtime_of(handle).export_state(zf::required(path, "path")); });
}

zf_status zf_export_begin(zf_runtime* handle, const char* path) {
  return zf::guarded([&] { runtime_of(handle).export_begin(zf::required(path, "path")); });
}

zf_status zf_export_wait(zf_runtime* handle, int64_t timeout_ms) {
  return zf::guarded([&] { return runtime_of(handle).export_wait(timeout_ms); });
}

zf_status zf_save_begin(zf_runtime* handle) {
  return zf::guarded([&] { runtime_of(handle).save_begin(); });
}

zf_status zf_save_wait(zf_runtime* handle, int64_t timeout_ms) {
  return zf::guarded([&] { return runtime_of(handle).save_wait(timeout_ms); });
}

zf_status zf_saved(zf_runtime* handle, size_t group, zf_buffer_kind kind, void** pointer, size_t* bytes) {
  return zf::guarded([&] { runtime_of(handle).saved(group, kind, zf::required(pointer, "pointer"), bytes); });
}

zf_status zf_save_end(zf_runtime* handle) {
  return zf::guarded([&] { return runtime_of(handle).save_end(); });
}

zf_status zf_import_state(zf_runtime* handle, const char* path) {
  return zf::guarded([&] { runtime_of(handle).import_state(zf::required(path, "path")); });
}

zf_status zf_get_stats(zf_runtime* handle, zf_stats* stats) {
  return zf::guarded([&] {
    const zf_stats filled = runtime_of(handle).stats();
    zf::write_versioned(filled, zf::required(stats, "stats"), "zf_stats");
  });
}

}  // extern "C"
