// How a Runtime reads, writes, exports and imports the state: parameters, moments and step numbers.
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "abi/plan_binding.hpp"
#include "abi/runtime.hpp"
#include "abi/state_file.hpp"
#include "abi/state_values.hpp"
#include "abi/status.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "os/environment.hpp"

namespace zf {

void Runtime::check_state_whole() const {
  if (submissions_.is_state_whole() && !submissions_.undecided_group()) return;
  if (ended_ || worker_.is_gone()) {
    throw AbiError(ZF_WORKER_DIED,
                   "the optimizer died during a step: parameters and moments may be half updated",
                   "open another handle and continue there from an earlier checkpoint");
  }
  check_decided();
  throw AbiError(ZF_ERROR_BUSY, "submitted work is not done yet", "call zf_wait first");
}

void Runtime::check_all_done() const {
  check_state_whole();
  if (submissions_.all_done() || ended_ || worker_.is_gone()) return;
  throw AbiError(ZF_ERROR_BUSY, "submitted work still reads parameters, moments or gradients",
                 "call zf_wait first");
}

void Runtime::check_decided() const {
  const std::optional<std::size_t> undecided = submissions_.undecided_group();
  if (!undecided) return;
  throw AbiError(ZF_ERROR_BUSY, format_text("group {} has a speculated step that is not decided", *undecided),
                 "submit ZF_TAKE_BACK or ZF_STEP for it, and call zf_wait");
}

std::uint64_t Runtime::step(std::size_t group) {
  submissions_.check_group(group);
  const std::lock_guard lock(mutex_);
  check_state_whole();
  return last_step_number(arena_.group(group));
}

void Runtime::check_state_range(std::size_t group, zf_buffer_kind kind, std::uint64_t begin,
                                std::uint64_t count) const {
  submissions_.check_group(group);
  const GroupBlock& block = arena_.group(group);
  if (!is_state(block, static_cast<ArrayKind>(kind))) {
    throw AbiError(ZF_ERROR_USAGE,
                   format_text("group {} has no parameters or moments of kind {}", group, kind),
                   "use ZF_PARAMS, ZF_MOMENT_1 or ZF_MOMENT_2");
  }
  if (begin <= block.elements && count <= block.elements - begin) return;
  throw AbiError(ZF_ERROR_USAGE, format_text("group {} has {}, and not {} from {} on", group,
                                             print_count(block.elements, "element"), count, begin));
}

void Runtime::read_state(std::size_t group, zf_buffer_kind kind, std::uint64_t begin,
                         std::span<float> values) {
  check_state_range(group, kind, begin, values.size());
  const std::lock_guard submit_lock(submit_mutex_);
  {
    const std::lock_guard lock(mutex_);
    check_state_whole();
  }
  read_values(arena_, arena_.group(group), static_cast<ArrayKind>(kind), begin, values);
}

void Runtime::write_state(std::size_t group, zf_buffer_kind kind, std::uint64_t begin,
                          std::span<const float> values) {
  check_state_range(group, kind, begin, values.size());
  const std::lock_guard submit_lock(submit_mutex_);
  {
    const std::lock_guard lock(mutex_);
    check_all_done();
  }
  // For the case that this process dies meanwhile. An import that has failed stays marked.
  std::atomic<std::uint32_t>& is_overwritten = arena_.control().is_overwritten;
  const std::uint32_t before = is_overwritten.exchange(1, std::memory_order_seq_cst);
  write_values(arena_, arena_.group(group), static_cast<ArrayKind>(kind), begin, values);
  is_overwritten.store(before, std::memory_order_seq_cst);
}

void Runtime::overwriting(bool begins) {
  check_not_ended();
  arena_.control().is_overwritten.store(begins ? 1 : 0, std::memory_order_seq_cst);
}

void Runtime::export_state(const char* path) {
  const std::lock_guard submit_lock(submit_mutex_);
  {
    const std::lock_guard lock(mutex_);
    check_state_whole();
  }
  AtomicFile file(path);
  write_state_file(file, arena_);
}

std::uint64_t Runtime::check_saving() {
  check_not_ended();
  {
    const std::lock_guard lock(mutex_);
    check_decided();
  }
  exporting_.check_idle();
  return room_for_saving(arena_, allowed_to_optimizer(),
                         most_room_for_saving(arena_.control().image_bytes, Environment::of_this_process()));
}

template <class Begin>
void Runtime::begin_saving(std::uint64_t room, Begin begin) {
  const std::scoped_lock lock(submit_mutex_, mutex_);
  check_not_ended();
  check_decided();
  restart_worker();
  begin([this, room] { return submissions_.submit_save(room); },
        [this] { return worker_.is_gone() || has_no_worker_; });
}

void Runtime::export_begin(const char* path) {
  const std::uint64_t room = check_saving();
  std::error_code error;  // in a folder that was removed
  std::filesystem::path target = std::filesystem::absolute(path, error);
  if (error) target = path;
  auto file = std::make_unique<AtomicFile>(target);
  begin_saving(room, [&](const auto& submit, const auto& is_lost) {
    exporting_.begin(std::move(file), target, submit, is_lost);
  });
}

void Runtime::save_begin() {
  const std::uint64_t room = check_saving();
  if (const std::uint64_t bytes = arena_.control().image_bytes; room < bytes) {
    throw AbiError(ZF_ERROR_SYSTEM,
                   format_text("a copy of the state needs {}, and there is room for {}", print_bytes(bytes),
                               print_bytes(room)),
                   "use zf_export_begin, which needs less, or zf_export_state");
  }
  begin_saving(room, [&](const auto& submit, const auto& is_lost) { exporting_.hold(submit, is_lost); });
}

bool Runtime::save_wait(std::int64_t timeout_ms) { return exporting_.wait_held(deadline_of(timeout_ms)); }

void Runtime::saved(std::size_t group, zf_buffer_kind kind, void** pointer, std::size_t* bytes) {
  check_state_range(group, kind, 0, 0);
  const ArrayPlace place = exporting_.held(arena_.group(group), static_cast<ArrayKind>(kind));
  *pointer = arena_.at<void>(place.offset);
  if (bytes != nullptr) *bytes = place.bytes;
}

bool Runtime::save_end() { return exporting_.release(now_ns() + close_timeout_ns_); }

bool Runtime::export_wait(std::int64_t timeout_ms) { return exporting_.wait(deadline_of(timeout_ms)); }

void Runtime::import_state(const char* path) {
  const std::lock_guard submit_lock(submit_mutex_);
  {
    const std::lock_guard lock(mutex_);
    check_all_done();
  }
  // Without mutex_, so that a death is noticed meanwhile. A worker that starts touches nothing that is done.
  const std::vector<std::uint64_t> steps = read_state_file(path, arena_);
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < steps.size(); ++i) last_step_number(arena_.group(i)) = steps[i];
  drop_notes(arena_, 0);  // they are of other steps
  submissions_.drop_prepared();
  arena_.control().is_overwritten.store(0, std::memory_order_seq_cst);
}

}  // namespace zf
