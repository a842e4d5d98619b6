// What the trainer has handed to the worker: settings of the groups, entries of the ring, what each waits
// for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ipc/arena.hpp"
#include "zf_runtime.h"

namespace zf {

/// A step of a group, for whoever wants to know how far it is.
struct SubmittedStep {
  std::uint64_t ticket = 0;  ///< of the group alone; 0: it never was submitted
  std::uint64_t first_chunk = 0;
};

/// Not thread-safe. What is refused is thrown as AbiError, and nothing is submitted then.
class Submissions {
 public:
  Submissions(const Arena& arena, const std::vector<zf_group>& groups);

  std::size_t group_count() const { return groups_.size(); }
  /// Throws AbiError(ZF_ERROR_USAGE).
  void check_group(std::size_t group) const;
  const zf_group& settings(std::size_t group) const { return groups_[group].settings; }
  void set_group(std::size_t group, const zf_group* settings);

  /// zf_submit, without the worker's life.
  std::uint64_t submit(const zf_submit_args& args);
  std::uint64_t submitted() const;
  bool all_done() const;

  /// The group's last step among what had been submitted when `ticket` was given.
  SubmittedStep last_step(std::size_t group, std::uint64_t ticket) const;

 private:
  struct Last {
    std::uint64_t ticket = 0;
    std::uint64_t first_chunk = 0;
  };
  struct Group {
    zf_group settings;
    std::uint64_t serial = 0;     ///< steps submitted so far
    std::uint64_t chosen_by = 0;  ///< the last call of submit that named it
    std::array<std::array<Last, kGradBuffers>, kWorkKinds> last = {};

    Last& last_of(WorkKind kind, std::uint32_t buffer) {
      return last[static_cast<std::size_t>(kind)][buffer];
    }
  };

  /// Fills chosen_ with the groups that a submission means; throws when one cannot be submitted now.
  void choose_groups(const zf_submit_args& args);
  void publish(std::uint32_t index, const zf_submit_args& args, std::uint64_t ticket);

  const Arena& arena_;
  std::vector<Group> groups_;
  std::vector<std::uint32_t> chosen_;  ///< kept, so that submitting allocates nothing
  std::uint64_t calls_ = 0;            ///< of submit
  std::uint64_t chunks_ = 0;           ///< of all steps
};

/// How many elements from the group's start are done by this step: outputs too, and for good.
std::uint64_t elements_done(const Arena& arena, std::size_t group, const SubmittedStep& step);

}  // namespace zf
