// zf_runtime.h for C++20: handles that close themselves, arrays as spans, errors as exceptions. Header only.
//
//   std::vector<zf_group> groups = {zf::runtime::group(n)};
//   zf::runtime::Optimizer optimizer(groups);                 // plan and rank from the environment
//   std::ranges::copy(weights, optimizer.params(0).begin());
//   zf_adam adam = zf::runtime::adam();
//   for (step = 1; ...; ++step) {
//     fill(optimizer.grads<float>(0, buffer));
//     const zf_scalars scalars = zf::runtime::adam_scalars(adam, step);
//     optimizer.wait();                                       // the step before this one
//     optimizer.submit({.scalars = std::span(&scalars, 1), .buffer = buffer});
//   }
//
// Each call has the meaning, the errors and the thread rules of the C function with the same name. If that
// returns ZF_TIMEOUT, the result of the call here says so. Every other status that is not ZF_OK is thrown as
// an Error.
//
// Call these in C; a C++ function would add nothing: zf_abi_version, zf_version, zf_status_name,
// zf_find_rank, zf_find_ranks, zf_call_each.
#ifndef ZF_RUNTIME_HPP
#define ZF_RUNTIME_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "zf_runtime.h"

namespace zf::runtime {

/// A status that is not ZF_OK. what() is zf_last_error(): one line, with what to do next.
class Error : public std::runtime_error {
 public:
  Error(zf_status status, const std::string& text) : std::runtime_error(text), status_(status) {}
  zf_status status() const noexcept { return status_; }

 private:
  zf_status status_;
};

namespace detail {

inline void check(zf_status status) {
  if (status != ZF_OK) throw Error(status, zf_last_error());
}

}  // namespace detail

/// A timeout that waits as long as the optimizer lives.
inline constexpr std::chrono::milliseconds forever{-1};

/// Returns the default options.
inline zf_options options() { return ZF_OPTIONS_INIT; }

/// Returns the settings of AdamW with lr 1e-3.
inline zf_adam adam() { return ZF_ADAM_INIT; }

/// Calls zf_adam_scalars.
inline zf_scalars adam_scalars(const zf_adam& settings, std::uint64_t step) {
  zf_scalars scalars = {};
  detail::check(zf_adam_scalars(&settings, step, &scalars));
  return scalars;
}

/// Returns a group with fp32 gradients and no outputs.
inline zf_group group(std::uint64_t elements) {
  zf_group group = ZF_GROUP_INIT;
  group.elements = elements;
  return group;
}

/// The arguments of zf_submit.
struct Submission {
  std::span<const zf_scalars> scalars = {};  ///< zf_submit_args.scalars; none for a norm
  /// The groups to submit. Absent means all groups. An empty span means none, as for a trainer that has
  /// collected none yet.
  std::optional<std::span<const std::uint32_t>> groups = std::nullopt;
  std::uint32_t buffer = 0;
  std::span<const std::uint32_t> scalars_of = {};  ///< empty: one for all groups, or one for each, in order
  const void* note = nullptr;                      ///< zf_submit_args.note
  std::uint64_t begin = 0, end = 0;                ///< of a speculation: elements of each group; 0: all
  bool prepares = false;                           ///< zf_submit_args.prepares
};

/// The sum of squares of a group's gradients.
struct Norm {
  double sum_of_squares;
  bool finite;
};

/// Owns a handle. A moved-from object may only be destroyed or assigned to.
class Optimizer {
 public:
  /// Calls zf_open.
  explicit Optimizer(std::span<const zf_group> groups, const zf_options& options = runtime::options()) {
    elements_.reserve(groups.size());
    for (const zf_group& group : groups) elements_.push_back(group.elements);
    detail::check(zf_open(&options, groups.data(), groups.size(), &handle_));
  }
  Optimizer(Optimizer&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), elements_(std::move(other.elements_)) {}
  Optimizer& operator=(Optimizer&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(elements_, other.elements_);
    return *this;
  }
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  /// Closes the handle like close(), and ignores errors.
  ~Optimizer() { zf_close(handle_); }

  /// Calls zf_close. All spans become invalid. Throws Error(ZF_TIMEOUT) if the optimizer had to be killed.
  void close() { detail::check(zf_close(std::exchange(handle_, nullptr))); }
  /// Calls zf_end: the process ends, and the spans stay valid.
  void end() { detail::check(zf_end(handle_)); }
  /// Returns the handle, for the C functions.
  zf_runtime* handle() const noexcept { return handle_; }

  // The arrays of a group (zf_buffer).
  std::span<float> params(std::size_t group) const { return array<float>(group, ZF_PARAMS); }
  /// Return the moments of set 0 or 1. Set 1 exists only with zf_group.moment_sets 2. Element is a 2-byte
  /// type if zf_group.state_format has bf16 moments.
  template <class Element = float>
  std::span<Element> moment1(std::size_t group, std::uint32_t set = 0) const {
    return array<Element>(group, is_second_set(set) ? ZF_MOMENT_1_SET_1 : ZF_MOMENT_1);
  }
  template <class Element = float>
  std::span<Element> moment2(std::size_t group, std::uint32_t set = 0) const {
    return array<Element>(group, is_second_set(set) ? ZF_MOMENT_2_SET_1 : ZF_MOMENT_2);
  }
  std::span<float> stale(std::size_t group) const { return array<float>(group, ZF_STALE); }
  /// Returns the 16-bit copy of the parameters. Half is a 2-byte type: std::uint16_t, or your own class for
  /// bf16 or fp16.
  template <class Half = std::uint16_t>
  std::span<Half> copy(std::size_t group) const {
    return array<Half>(group, ZF_COPY);
  }
  /// Returns one of the two gradient buffers. Element is float or a 2-byte type, as the group's grad_type
  /// says.
  template <class Element>
  std::span<Element> grads(std::size_t group, std::uint32_t buffer) const {
    if (buffer > 1) throw Error(ZF_ERROR_USAGE, "a gradient buffer is 0 or 1");
    return array<Element>(group, buffer == 0 ? ZF_GRADS_0 : ZF_GRADS_1);
  }

  /// Calls zf_submit and returns the ticket.
  std::uint64_t submit(const Submission& submission) { return submit(submission, ZF_STEP); }
  /// Submits ZF_NORM and returns the ticket. After wait(), norm() has the result.
  std::uint64_t submit_norm(const Submission& submission = {}) { return submit(submission, ZF_NORM); }

  /// Submit ZF_SPECULATE and ZF_TAKE_BACK, and return the ticket.
  std::uint64_t speculate(const Submission& submission) { return submit(submission, ZF_SPECULATE); }
  std::uint64_t take_back(const Submission& submission = {}) { return submit(submission, ZF_TAKE_BACK); }

  /// Calls zf_wait. Returns false at the timeout. Ticket 0 means everything that is submitted.
  bool wait(std::uint64_t ticket = 0, std::chrono::milliseconds timeout = forever) {
    return is_done(zf_wait(handle_, ticket, timeout.count()));
  }

  /// Calls zf_progress, which waits for at_least elements. Returns how many are finished; after a timeout
  /// that may be fewer.
  std::uint64_t progress(std::uint64_t ticket, std::size_t group, std::uint64_t at_least = 0,
                         std::chrono::milliseconds timeout = forever) {
    std::uint64_t elements = 0;
    is_done(zf_progress(handle_, ticket, group, at_least, timeout.count(), &elements));
    return elements;
  }

  /// Calls zf_norm.
  Norm norm(std::size_t group, std::uint32_t buffer) const {
    Norm norm = {};
    std::int32_t finite = 0;
    detail::check(zf_norm(handle_, group, buffer, &norm.sum_of_squares, &finite));
    norm.finite = finite != 0;
    return norm;
  }

  /// Calls zf_get_step.
  std::uint64_t step(std::size_t group) const {
    std::uint64_t step = 0;
    detail::check(zf_get_step(handle_, group, &step));
    return step;
  }

  /// Calls zf_overwriting.
  void overwriting(bool begins) { detail::check(zf_overwriting(handle_, begins ? 1 : 0)); }

  /// Calls zf_go. Returns a ticket.
  std::uint64_t go() {
    std::uint64_t ticket = 0;
    detail::check(zf_go(handle_, &ticket));
    return ticket;
  }

  /// Calls zf_get_prepared, as note() calls zf_get_note.
  std::uint64_t prepared(std::span<std::byte> bytes) const {
    std::uint64_t step = 0;
    detail::check(zf_get_prepared(handle_, bytes.data(), bytes.size(), &step));
    return step;
  }

  /// Calls zf_get_note. Returns the number of the note's step; 0: there is none.
  std::uint64_t note(std::span<std::byte> bytes) const {
    std::uint64_t step = 0;
    detail::check(zf_get_note(handle_, bytes.data(), bytes.size(), &step));
    return step;
  }

  /// Call zf_read_state and zf_write_state: as fp32 in any state format, for elements from `begin` on.
  void read_state(std::size_t group, zf_buffer_kind kind, std::uint64_t begin,
                  std::span<float> values) const {
    detail::check(zf_read_state(handle_, group, kind, begin, values.size(), values.data()));
  }
  void write_state(std::size_t group, zf_buffer_kind kind, std::uint64_t begin,
                   std::span<const float> values) {
    detail::check(zf_write_state(handle_, group, kind, begin, values.size(), values.data()));
  }

  /// Call zf_export_state and zf_import_state.
  void export_state(const std::string& path) const { detail::check(zf_export_state(handle_, path.c_str())); }
  void import_state(const std::string& path) { detail::check(zf_import_state(handle_, path.c_str())); }
  /// Calls zf_export_begin.
  void export_begin(const std::string& path) { detail::check(zf_export_begin(handle_, path.c_str())); }
  /// Calls zf_export_wait. Returns false if the file is not there yet.
  bool export_wait(std::chrono::milliseconds timeout = forever) {
    return is_done(zf_export_wait(handle_, timeout.count()));
  }

  /// Calls zf_save_begin.
  void save_begin() { detail::check(zf_save_begin(handle_)); }
  /// Calls zf_save_wait. Returns false if the copy is not made yet.
  bool save_wait(std::chrono::milliseconds timeout = forever) {
    return is_done(zf_save_wait(handle_, timeout.count()));
  }
  /// Calls zf_saved. Element is a 2-byte type for bf16 moments.
  template <class Element = float>
  std::span<const Element> saved(std::size_t group, zf_buffer_kind kind) const {
    return array<Element>(group, kind, zf_saved);
  }
  /// Calls zf_save_end. Returns false if the optimizer still writes the copy.
  bool save_end() { return is_done(zf_save_end(handle_)); }

  /// Calls zf_get_stats.
  zf_stats stats() const {
    zf_stats stats = ZF_STATS_INIT;
    detail::check(zf_get_stats(handle_, &stats));
    return stats;
  }

 private:
  static bool is_done(zf_status status) {
    if (status != ZF_TIMEOUT) detail::check(status);
    return status == ZF_OK;
  }

  static bool is_second_set(std::uint32_t set) {
    if (set > 1) throw Error(ZF_ERROR_USAGE, "a set of moments is 0 or 1");
    return set == 1;
  }

  std::uint64_t submit(const Submission& submission, std::uint32_t work) {
    zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
    args.buffer = submission.buffer;
    if (submission.groups) {
      // An empty span may hold NULL, which would mean all groups.
      static constexpr std::uint32_t none = 0;
      args.groups = submission.groups->empty() ? &none : submission.groups->data();
      args.n_groups = submission.groups->size();
    }
    const std::size_t groups = submission.groups ? submission.groups->size() : elements_.size();
    if (!submission.scalars_of.empty() && submission.scalars_of.size() != groups)
      throw Error(ZF_ERROR_USAGE, "there must be as many scalars_of as groups, or none");
    args.work = work;
    args.note = submission.note;
    args.prepares = submission.prepares ? 1 : 0;
    args.begin = submission.begin;
    args.end = submission.end;
    args.scalars = submission.scalars.empty() ? nullptr : submission.scalars.data();
    args.scalar_count = submission.scalars.size();
    args.scalars_of = submission.scalars_of.empty() ? nullptr : submission.scalars_of.data();
    std::uint64_t ticket = 0;
    detail::check(zf_submit(handle_, &args, &ticket));
    return ticket;
  }

  template <class Element>
  std::span<Element> array(std::size_t group, zf_buffer_kind kind,
                           decltype(&zf_buffer) find = zf_buffer) const {
    void* first = nullptr;
    std::size_t bytes = 0;
    detail::check(find(handle_, group, kind, &first, &bytes));
    const std::size_t elements = elements_[group];
    if (bytes != elements * sizeof(Element))
      throw Error(
          ZF_ERROR_USAGE,
          "the elements of this array have another size: check grad_type, copy_type and state_format of the "
          "group");
    return {static_cast<Element*>(first), elements};
  }

  zf_runtime* handle_ = nullptr;
  std::vector<std::size_t> elements_;  ///< of each group
};

/// Returns the default options of a Local.
inline zf_local_options local_options() { return ZF_LOCAL_OPTIONS_INIT; }

/// Steps arrays of the program in place. Owns a handle. A moved-from object may only be destroyed or assigned
/// to.
class Local {
 public:
  /// Calls zf_local_open.
  explicit Local(const zf_local_options& options = local_options()) {
    detail::check(zf_local_open(&options, &handle_));
  }
  Local(Local&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Local& operator=(Local&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Local(const Local&) = delete;
  Local& operator=(const Local&) = delete;
  /// Calls zf_local_close.
  ~Local() { zf_local_close(handle_); }

  /// Calls zf_local_step. `counters` is empty, or has one entry for each tensor.
  void step(std::span<const zf_tensor> tensors, std::span<const zf_scalars> scalars,
            std::span<float* const> counters = {}) {
    if (!counters.empty() && counters.size() != tensors.size())
      throw Error(ZF_ERROR_USAGE, "there must be as many counters as tensors, or none");
    zf_local_step_args args = ZF_LOCAL_STEP_ARGS_INIT;
    args.tensors = tensors.data();
    args.tensor_count = tensors.size();
    args.scalars = scalars.data();
    args.scalar_count = scalars.size();
    args.counters = counters.empty() ? nullptr : counters.data();
    detail::check(zf_local_step(handle_, &args));
  }

  /// Calls zf_local_read. `what`: ZF_READ_NORM and others, added up.
  void read(std::span<zf_reading> readings, std::uint32_t what) {
    detail::check(zf_local_read(handle_, readings.data(), readings.size(), sizeof(zf_reading), what));
  }

  /// Calls zf_local_place.
  template <class Element>
  void place(std::span<Element> memory) {
    detail::check(zf_local_place(handle_, memory.data(), memory.size_bytes()));
  }

  /// Calls zf_local_stats.
  zf_local_statistics stats() const {
    zf_local_statistics statistics = ZF_LOCAL_STATISTICS_INIT;
    detail::check(zf_local_stats(handle_, &statistics));
    return statistics;
  }

 private:
  zf_local* handle_ = nullptr;
};

/// A file that replaces another one in one step, or never. A moved-from object may only be destroyed or
/// assigned to.
class File {
 public:
  /// Calls zf_file_begin.
  explicit File(const std::string& path) { detail::check(zf_file_begin(path.c_str(), &file_, &descriptor_)); }
  File(File&& other) noexcept
      : file_(std::exchange(other.file_, nullptr)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  /// Drops what was written, unless keep() was called.
  ~File() { zf_file_end(file_, 0); }

  /// Returns where to write; -1 after keep().
  int descriptor() const noexcept { return descriptor_; }
  /// Puts the file in its place (zf_file_end).
  void keep() {
    descriptor_ = -1;  // it is closed, and its number may be another file's soon
    detail::check(zf_file_end(std::exchange(file_, nullptr), 1));
  }

 private:
  zf_file* file_ = nullptr;
  std::int32_t descriptor_ = -1;
};

}  // namespace zf::runtime

#endif
