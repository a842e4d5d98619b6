#include "launch/thread_counts.hpp"

#include <algorithm>
#include <vector>

#include "base/format.hpp"
#include "base/text.hpp"
#include "plan/thread_variables.hpp"

namespace zf {
namespace {

/// Returns the number for the outermost level: OMP_NUM_THREADS may have one for each level, "4,2". The other
/// variables have no levels.
std::string outermost(const std::string& value) { return value.substr(0, value.find(',')); }

/// The variables by who has set them.
struct Setters {
  std::vector<std::string> by_user;  ///< "NAME=value"
  std::vector<std::string> counts;   ///< the outermost numbers of these
  std::vector<std::string> unset;    ///< names
  bool has_torchruns_one = false;    ///< it is among `unset`
};

Setters setters_of(const std::string& by_outer_exec, TorchrunsOne torchruns_one,
                   const Environment& environment) {
  const bool is_under_torchrun =
      torchruns_one == TorchrunsOne::replaced && environment.get("TORCHELASTIC_RUN_ID");
  Setters setters;
  for (const std::string name : kThreadVariables) {
    const std::string value = environment.get(name).value_or("");
    const bool is_torchruns = is_under_torchrun && name == "OMP_NUM_THREADS" && value == "1";
    if (is_torchruns) setters.has_torchruns_one = true;
    if (value.empty() || is_torchruns || value == by_outer_exec) {
      setters.unset.push_back(name);
    } else {
      setters.by_user.push_back(format_text("{}={}", name, value));
      setters.counts.push_back(outermost(value));
    }
  }
  return setters;
}

/// Says which numbers of the user's are kept, and what the other variables get. Empty if all are the plan's.
std::string kept_in_words(const Setters& setters, const std::string& planned) {
  const auto is_planned = [&](const std::string& count) { return count == planned; };
  if (std::all_of(setters.counts.begin(), setters.counts.end(), is_planned)) return {};
  const bool one = setters.by_user.size() == 1;
  std::string text = format_text("{} {} set already and {} kept", enumerated(setters.by_user),
                                 one ? "is" : "are", one ? "is" : "are");
  if (!setters.unset.empty()) {
    text += format_text("; {} {} {}, too", enumerated(setters.unset),
                        setters.unset.size() == 1 ? "gets" : "get", setters.counts.front());
  }
  return text + format_text("; the plan has {}", planned);
}

}  // namespace

ThreadCounts thread_counts(int planned, const std::string& by_outer_exec, TorchrunsOne torchruns_one,
                           const Environment& environment, LaunchedBy by) {
  const Setters setters = setters_of(by_outer_exec, torchruns_one, environment);
  const std::string by_plan = std::to_string(planned);
  const bool is_all_the_plans = setters.by_user.empty();
  ThreadCounts counts;
  for (const std::string& name : setters.unset)
    counts.set[name] = is_all_the_plans ? by_plan : setters.counts.front();
  counts.note = kept_in_words(setters, by_plan);
  if (!setters.has_torchruns_one || (is_all_the_plans && planned == 1)) return counts;
  counts.is_for_all_ranks = is_all_the_plans;
  const std::string replaced = format_text("OMP_NUM_THREADS=1 is taken to be torchrun's{}",
                                           by == LaunchedBy::exec ? " (--keep-threads keeps it)" : "");
  counts.note = is_all_the_plans      ? format_text("{}; the plan's {} threads are used", replaced, planned)
                : counts.note.empty() ? replaced
                                      : format_text("{}; {}", replaced, counts.note);
  return counts;
}

}  // namespace zf
