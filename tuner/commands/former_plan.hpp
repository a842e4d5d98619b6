// Keeps the plan that is replaced by a new one: NAME is moved to NAME.old.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "plan/plan.hpp"

namespace zf {

/// The visits of a plan's sweep, and the runs of the user's own job in its trial.
struct Measurements {
  int count = 0;
  bool are_simulated = false;

  /// A plan with any real measurement is worth more than one with simulated ones alone.
  bool are_fewer_than(const Measurements& other) const {
    return are_simulated != other.are_simulated ? are_simulated : count < other.count;
  }
};

/// Returns the measurements that a plan rests on.
Measurements measurements_of(const Plan& plan);

/// The file that has a name which a former plan could get.
struct Occupant {
  enum class Kind {
    nothing,
    former,   ///< the very plan that is to be moved: a process was killed between naming it and replacing it
    plan,     ///< a plan of this user
    foreign,  ///< cannot be read as a plan, or is another user's: it is never replaced
  };
  Kind kind = Kind::nothing;
  Measurements measurements = {};  ///< of a plan
};

/// Returns the name for the plan at `path`, which rests on these measurements: NAME.old, unless a foreign
/// file or a plan with more measurements has that name; then the first of NAME.old.1 to NAME.old.9 that
/// nothing has. Returns the name that the plan already has, if it has one of these. Absent: none is free.
/// Pure.
std::optional<std::filesystem::path> name_for_former(
    const std::filesystem::path& path, const Measurements& measurements,
    const std::function<Occupant(const std::filesystem::path&)>& occupant_of);

/// The file at the name of a new plan, if it must be kept: a plan that rests on measurements, or a file that
/// is not empty and cannot be read as a plan.
class FormerPlan {
 public:
  /// `path` is no link: OutputFile::path() has followed them.
  explicit FormerPlan(std::filesystem::path path) : path_(std::move(path)) {}

  /// Finds out what is at the path, and which name it gets. Changes nothing. Throws Error(runtime_error) if
  /// it must be kept and no name is free.
  void look() { look(nullptr); }

  /// Looks again, and gives the file its new name. It also has its old name until `next` takes that, so a
  /// kill loses neither. (Only where a file cannot have two names, nothing has the old name for a moment.)
  /// Does nothing if nothing must be kept, or if `next` is the same plan. Throws Error(runtime_error);
  /// nothing is changed then.
  void keep(const Plan& next);

  /// Undoes keep() if the new plan could not be written. A plan that was replaced at NAME.old does not come
  /// back.
  void put_back() const noexcept;

  /// Returns one line that says what keep() has moved where; absent if it moved nothing.
  std::optional<std::string> note() const;

 private:
  void look(const Plan* next);
  /// Returns false if something has got that name meanwhile.
  bool take_free_name();
  void replace_older_plan();
  void rename();

  std::filesystem::path path_;
  std::optional<std::filesystem::path> name_;  ///< of the file in future; absent: it need not be kept
  bool is_plan_ = false;
  bool has_new_link_ = false;
  bool was_renamed_ = false;
};

}  // namespace zf
