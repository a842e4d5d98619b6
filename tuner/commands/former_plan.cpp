#include "commands/former_plan.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"
#include "os/file.hpp"
#include "plan/plan_json.hpp"

namespace zf {
namespace {

constexpr int kMoreNames = 9;

/// Returns NAME.old for 0, and NAME.old.N.
std::filesystem::path old_name(const std::filesystem::path& path, int number) {
  return path.string() + (number == 0 ? ".old" : format_text(".old.{}", number));
}

/// Returns what lstat() tells of a name, if anything has it. Throws Error(runtime_error) if that is unknown.
std::optional<struct stat> status_of(const std::filesystem::path& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) == 0) return status;
  if (errno == ENOENT) return std::nullopt;
  throw_errno(errno, path.string(), "choose another -o FILE");
}

bool is_same_file(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/// Returns the plan at `path`; absent if it cannot be read as a plan.
std::optional<Plan> plan_at(const std::filesystem::path& path) {
  try {
    return load_plan(path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

Occupant occupant_of(const std::filesystem::path& name, const struct stat& former) {
  const auto status = status_of(name);
  if (!status) return {Occupant::Kind::nothing};
  if (is_same_file(*status, former)) return {Occupant::Kind::former};
  const auto plan = plan_at(name);
  if (!plan || !belongs_to_this_user(name, status->st_uid)) return {Occupant::Kind::foreign};
  return {Occupant::Kind::plan, measurements_of(*plan)};
}

/// Returns whether `path` is a file with something in it.
bool has_content(const std::filesystem::path& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
}

/// Returns whether both names are one file, or one symbolic link: links are not followed. False if that is
/// unknown.
bool is_same_entry(const std::filesystem::path& one, const std::filesystem::path& other) noexcept {
  struct stat of_one = {};
  struct stat of_other = {};
  return ::lstat(one.c_str(), &of_one) == 0 && ::lstat(other.c_str(), &of_other) == 0 &&
         is_same_file(of_one, of_other);
}

}  // namespace

Measurements measurements_of(const Plan& plan) {
  std::set<std::pair<int, int>> visits;
  for (const Sample& sample : plan.evidence.samples) visits.emplace(sample.candidate, sample.round);
  std::size_t runs = 0;
  if (plan.trial) {
    for (const TrialCandidate& candidate : plan.trial->candidates) runs += candidate.runs.size();
  }
  return {static_cast<int>(visits.size() + runs), runs == 0 && plan.evidence.isa == kSimulated};
}

std::optional<std::filesystem::path> name_for_former(
    const std::filesystem::path& path, const Measurements& measurements,
    const std::function<Occupant(const std::filesystem::path&)>& occupant_of) {
  std::array<Occupant, kMoreNames + 1> occupants;
  for (int i = 0; i <= kMoreNames; ++i) {
    Occupant& occupant = occupants.at(static_cast<std::size_t>(i));
    occupant = occupant_of(old_name(path, i));
    if (occupant.kind == Occupant::Kind::former) return old_name(path, i);
  }
  const Occupant& old = occupants.front();
  if (old.kind == Occupant::Kind::plan && !measurements.are_fewer_than(old.measurements))
    return old_name(path, 0);
  for (int i = 0; i <= kMoreNames; ++i) {
    if (occupants.at(static_cast<std::size_t>(i)).kind == Occupant::Kind::nothing) return old_name(path, i);
  }
  return std::nullopt;
}

void FormerPlan::look(const Plan* next) {
  name_.reset();
  const auto status = status_of(path_);
  if (!status || !has_content(path_)) return;
  const auto plan = plan_at(path_);
  is_plan_ = plan.has_value();
  const Measurements measurements = plan ? measurements_of(*plan) : Measurements();
  if (plan && (measurements.count == 0 || (next != nullptr && *plan == *next))) return;
  name_ = name_for_former(path_, measurements,
                          [&](const std::filesystem::path& name) { return zf::occupant_of(name, *status); });
  if (name_) return;
  throw Error(Exit::runtime_error,
              format_text("{}: what is there cannot be kept: {} and {}.1 to {}.{} are all taken",
                          path_.string(), old_name(path_, 0).string(), old_name(path_, 0).filename().string(),
                          old_name(path_, 0).filename().string(), kMoreNames),
              "move one of them away, or choose another -o FILE");
}

void FormerPlan::keep(const Plan& next) {
  for (bool done = false; !done;) {
    look(&next);
    if (!name_) return;
    if (!status_of(*name_)) {
      done = take_free_name();
    } else {
      replace_older_plan();
      done = true;
    }
  }
}

bool FormerPlan::take_free_name() {
  if (::link(path_.c_str(), name_->c_str()) == 0) {
    has_new_link_ = true;
    return true;
  }
  if (errno == EEXIST) return false;
  rename();
  return true;
}

void FormerPlan::replace_older_plan() {
  const auto temporary = path_.parent_path() / format_text(".{}.tmp", name_->filename().string());
  ::unlink(temporary.c_str());  // left by a process that was killed
  if (::link(path_.c_str(), temporary.c_str()) != 0) return rename();
  // rename() does nothing if both names are the same file already: a killed process came so far.
  int error = std::rename(temporary.c_str(), name_->c_str()) == 0 ? 0 : errno;
  if (is_same_entry(path_, *name_)) error = 0;  // NFS may answer ENOENT to a rename that is done
  ::unlink(temporary.c_str());
  if (error != 0) throw_errno(error, format_text("cannot move {} to {}", path_.string(), name_->string()));
}

void FormerPlan::rename() {
  const auto before = status_of(path_);
  if (std::rename(path_.c_str(), name_->c_str()) != 0) {
    const int error = errno;
    const auto there = status_of(*name_);
    // NFS may answer ENOENT to a rename that is done.
    if (!before || !there || !is_same_file(*before, *there) || status_of(path_)) {
      throw_errno(error, format_text("cannot move {} to {}", path_.string(), name_->string()),
                  "choose another -o FILE");
    }
  }
  was_renamed_ = true;
}

void FormerPlan::put_back() const noexcept {
  if (was_renamed_) {
    if (::access(path_.c_str(), F_OK) != 0) std::rename(name_->c_str(), path_.c_str());
  } else if (has_new_link_ && is_same_entry(path_, *name_)) {
    // Otherwise the write failed after its last rename: the new plan has the name, and this is the former
    // one's last.
    ::unlink(name_->c_str());
  }
}

std::optional<std::string> FormerPlan::note() const {
  if (!name_) return std::nullopt;
  return format_text("moved {} to {}",
                     is_plan_ ? std::string("the former plan")
                              : format_text("{}, which cannot be read as a plan,", path_.string()),
                     name_->string());
}

}  // namespace zf
