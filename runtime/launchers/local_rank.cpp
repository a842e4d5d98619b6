#include "launchers/local_rank.hpp"

#include <charconv>
#include <string_view>

#include "base/error.hpp"
#include "base/format.hpp"
#include "launchers/launcher.hpp"

namespace zf {
namespace {

constexpr std::string_view kTorchrunsRank = "LOCAL_RANK";
constexpr std::string_view kSlurmsRank = "SLURM_LOCALID";
constexpr const char* kOurRank = "ZF_RANK";

/// Returns the local rank by this launcher; nothing if it has not started this process.
std::optional<EnvNumber> rank_by(const Environment& environment, const Launcher& launcher) {
  if (launcher.rank == kSlurmsRank && in_batch_script(environment)) return std::nullopt;
  return number_in(environment, launcher.rank, 0);
}

std::optional<EnvNumber> rank_by_launcher(const Environment& environment) {
  for (const Launcher& launcher : launchers()) {
    if (auto rank = rank_by(environment, launcher)) return rank;
  }
  return std::nullopt;
}

/// Returns count number `index` of a text like "4(x2),1".
std::optional<int> count_on_node(std::string_view counts, int index) {
  while (!counts.empty()) {
    int count = 0;
    int nodes = 1;
    const char* const end = counts.data() + counts.size();
    const char* rest = std::from_chars(counts.data(), end, count).ptr;
    if (count < 1) return std::nullopt;
    if (constexpr std::string_view times = "(x"; std::string_view(rest, end).starts_with(times)) {
      const auto [after, error] = std::from_chars(rest + times.size(), end, nodes);
      rest = after;
      if (error != std::errc() || nodes < 1 || rest == end || *rest++ != ')') return std::nullopt;
    }
    if (rest != end && *rest++ != ',') return std::nullopt;
    if (index < nodes) return count;
    index -= nodes;
    counts = std::string_view(rest, end);
  }
  return std::nullopt;
}

std::optional<EnvNumber> per_node(const Environment& environment, const Launcher& launcher) {
  const auto counts = environment.get(launcher.counts[0]);
  const auto node = number_in(environment, launcher.counts[1], 0);
  if (!counts || !node) return std::nullopt;
  const auto count = count_on_node(*counts, node->value);
  return count ? std::optional(EnvNumber{*count, count_name(launcher)}) : std::nullopt;
}

std::optional<EnvNumber> quotient(const Environment& environment, const Launcher& launcher) {
  const auto ranks = number_in(environment, launcher.counts[0], 1);
  const auto nodes = number_in(environment, launcher.counts[1], 1);
  if (!ranks || !nodes || ranks->value % nodes->value != 0) return std::nullopt;
  return EnvNumber{ranks->value / nodes->value, count_name(launcher)};
}

std::optional<EnvNumber> first_set(const Environment& environment, const Launcher& launcher) {
  for (const char* const name : launcher.counts) {
    if (name == nullptr) break;
    if (auto count = number_in(environment, name, 1)) return count;
  }
  return std::nullopt;
}

/// Returns the number of local ranks by the launcher's CountRule, and where it is from: a variable, or
/// count_name(). Returns nothing if the launcher does not say, if the ranks of all nodes do not divide by the
/// nodes, or if the list of all nodes has no number for ours. Throws Error(usage) with the variable if one of
/// its variables, other than that list, is not a whole number of 1 or more (a node's number: 0 or more).
std::optional<EnvNumber> launched_count(const Environment& environment, const Launcher& launcher) {
  switch (launcher.rule) {
    case CountRule::first_set:
      return first_set(environment, launcher);
    case CountRule::quotient:
      return quotient(environment, launcher);
    case CountRule::per_node:
      return per_node(environment, launcher);
  }
  return std::nullopt;
}

/// Returns how many ranks the launcher with this LOCAL_RANK as its own has started: a script may have
/// copied it there. A count of 1 says nothing, because that one process may have started several ranks by
/// hand.
std::optional<EnvNumber> count_behind_local_rank(const Environment& environment, int local_rank) {
  for (const Launcher& launcher : launchers()) {
    if (launcher.rank == kTorchrunsRank) continue;
    const auto rank = rank_by(environment, launcher);
    if (!rank || rank->value != local_rank) continue;
    if (auto count = launched_count(environment, launcher); count && count->value > 1) return count;
  }
  return std::nullopt;
}

/// Returns the number of all ranks of torch.distributed if they meet on this node's loopback, which ranks of
/// another node cannot reach. Lightning, notebooks of accelerate, and programs with spawn() set no other
/// number.
std::optional<EnvNumber> count_on_loopback(const Environment& environment, int local_rank) {
  const std::string address = environment.get("MASTER_ADDR").value_or("");
  if (address != "localhost" && address != "::1" && !address.starts_with("127.")) return std::nullopt;
  const auto rank = number_in(environment, "RANK", 0);
  if (rank && rank->value != local_rank) return std::nullopt;
  return number_in(environment, "WORLD_SIZE", 1);
}

/// Returns the number of ranks for a rank of rank_by_launcher().
std::optional<EnvNumber> count_by_launcher(const Environment& environment, const EnvNumber& rank) {
  if (auto count = launched_count(environment, *launcher_of(rank.variable))) return count;
  if (rank.variable != kTorchrunsRank) return std::nullopt;
  if (auto count = count_behind_local_rank(environment, rank.value)) return count;
  return count_on_loopback(environment, rank.value);
}

/// Returns the launcher's rank that zf-tune exec made this ZF_RANK of; nothing if ZF_RANK is not from there.
std::optional<EnvNumber> rank_behind_ours(const Environment& environment, int ours) {
  const std::string now = launchers_rank(environment);
  if (now.empty() || environment.get("ZF_RANK_FROM") != now) return std::nullopt;
  const auto rank = rank_by_launcher(environment);
  return rank->value == ours ? rank : std::nullopt;  // they differ under exec --rank
}

}  // namespace

bool in_batch_script(const Environment& environment) {
  return environment.get("SLURM_JOB_ID") && !environment.get("SLURM_STEP_ID");
}

std::string launchers_rank(const Environment& environment) {
  const auto rank = rank_by_launcher(environment);
  if (!rank) return {};
  std::string text = format_text("{}={}", rank->variable, rank->value);
  // A batch script, the steps that it starts, and jobs that they submit may all have SLURM_LOCALID=0.
  for (const char* const name : launcher_of(rank->variable)->job) {
    if (name == nullptr) break;
    if (const auto value = environment.get(name)) text += format_text(" {}={}", name, *value);
  }
  return text;
}

std::optional<EnvNumber> local_rank(const Environment& environment) {
  const auto ours = number_in(environment, kOurRank, 0);
  if (!ours) return rank_by_launcher(environment);
  const auto then = environment.get("ZF_RANK_FROM");
  const std::string now = launchers_rank(environment);
  return !then || now.empty() || now == *then ? ours : rank_by_launcher(environment);
}

std::optional<EnvNumber> launched_ranks(const Environment& environment) {
  const auto rank = local_rank(environment);
  if (!rank) return std::nullopt;
  const auto by_launcher = rank->variable == kOurRank ? rank_behind_ours(environment, rank->value) : rank;
  if (!by_launcher) return std::nullopt;
  auto count = count_by_launcher(environment, *by_launcher);
  if (count && rank->value >= count->value) {
    throw Error(Exit::usage,
                format_text("{}={} is not below {}={}, and local ranks count from 0", by_launcher->variable,
                            by_launcher->value, count->variable, count->value),
                "correct or unset one of these variables");
  }
  return count;
}

std::optional<EnvNumber> local_rank_count(const Environment& environment, GpuRuntime runtime) {
  for (const Launcher& launcher : launchers()) {
    auto count = launcher.asked_count != nullptr ? number_in(environment, launcher.asked_count, 1)
                                                 : launched_count(environment, launcher);
    if (count) return count;
  }
  const auto devices = visible_devices(environment, runtime);
  if (!devices || devices->ids.empty()) return std::nullopt;
  return EnvNumber{static_cast<int>(devices->ids.size()), devices->variable};
}

}  // namespace zf
