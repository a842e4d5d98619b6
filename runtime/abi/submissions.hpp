// Submits work to the worker: fills the ring, and knows what was submitted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "abi/submit_args.hpp"
#include "ipc/arena.hpp"
#include "zf_runtime.h"

namespace zf {

/// A submitted step of a group, to ask how far it is.
struct SubmittedStep {
  std::uint64_t ticket = 0;  ///< ticket of this group alone; 0: the group was never submitted
  std::uint64_t first_chunk = 0;
};

/// All groups, and the work that was submitted for them. Not thread-safe. A submission that
/// is refused throws AbiError, and then nothing is submitted.
class Submissions {
 public:
  explicit Submissions(const Arena& arena);

  std::size_t group_count() const { return groups_.size(); }
  /// Throws AbiError(ZF_ERROR_USAGE).
  void check_group(std::size_t group) const;

  /// Implements zf_submit, without looking after the worker.
  std::uint64_t submit(const zf_submit_args& args);
  /// Submits what was prepared. Throws AbiError(ZF_ERROR_USAGE) if nothing is.
  std::uint64_t go();
  /// Returns whether a step is prepared and not submitted.
  bool has_prepared() const;
  void drop_prepared();
  std::uint64_t submitted() const;
  bool all_done() const;
  /// Returns whether what is not done changes no state.
  bool is_state_whole() const;
  /// Returns the first group with a speculated step that is not decided.
  std::optional<std::size_t> undecided_group() const;
  /// Takes over the arena of another trainer. Precondition: all work that was submitted to it is done.
  void go_on();
  /// Submits that each speculated step is taken back.
  void take_back_all();

  /// Submits that the state of all groups is saved, as it is when everything before it is done. Throws
  /// AbiError(ZF_ERROR_BUSY) if the last save is not done.
  /// room: the bytes of the saved area that the copy may take.
  std::uint64_t submit_save(std::uint64_t room);

  /// Returns the group's last step among those submitted up to `ticket`.
  SubmittedStep last_step(std::size_t group, std::uint64_t ticket) const;

 private:
  struct Last {
    std::uint64_t ticket = 0;
    std::uint64_t first_chunk = 0;
  };
  struct Group {
    std::uint64_t serial = 0;                     ///< steps submitted so far
    std::optional<std::uint32_t> undecided = {};  ///< the gradient buffer of its speculated step
    std::vector<bool> begun = {};                 ///< by chunk: that step was submitted for it
    std::uint64_t speculations = 0;               ///< of that step
    std::uint64_t chosen_by = 0;                  ///< number of the last submit() call that named it
    std::array<std::array<Last, kGradBuffers>, kWorkKinds> last = {};

    Last& last_of(WorkKind kind, std::uint32_t buffer) {
      return last[static_cast<std::size_t>(kind)][buffer];
    }
  };

  /// Fills chosen_ with the groups of a submission. Throws if one of them cannot be submitted now.
  void choose_groups(const zf_submit_args& args);
  /// Throws if the group has a speculated step that the submission does not allow, or lacks one that it
  /// needs.
  void check_speculation(std::size_t index, const zf_submit_args& args) const;
  /// Throws if the chosen group of this number has a speculated step that cannot be begun for these elements.
  void check_elements(std::size_t number, const zf_submit_args& args) const;
  /// Writes the requests of a step, and its note.
  void prepare(const zf_submit_args& args);
  /// Publishes the work on the chosen group of this number, and raises `count`, the number of entries.
  void publish(std::size_t number, const zf_submit_args& args, std::uint64_t& count);
  /// Publishes a step of a group, and raises `count`. Precondition: the request of the step is written.
  void publish_step(std::uint32_t index, std::uint32_t buffer, std::uint64_t& count);
  /// Lets the worker see the entries up to `count`.
  void ring(std::uint64_t count);
  void publish_entry(std::uint32_t group, std::uint32_t buffer, WorkKind kind, std::uint64_t& count);
  void publish_chunks(std::uint32_t group, std::uint32_t buffer, WorkKind kind, ChunkRange chunks,
                      std::uint64_t& count);

  const Arena& arena_;
  std::vector<Group> groups_;
  std::vector<std::uint32_t> chosen_;  ///< a member, so that submitting allocates nothing
  std::uint64_t calls_ = 0;            ///< number of calls of submit()
  std::uint64_t chunks_ = 0;           ///< number of chunks of all submitted steps
};

/// Returns how many elements from the group's start this step has finished for good, including their outputs.
std::uint64_t elements_done(const Arena& arena, std::size_t group, const SubmittedStep& step);

}  // namespace zf
