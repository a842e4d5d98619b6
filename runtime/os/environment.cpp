#include "os/environment.hpp"

#include <unistd.h>

#include <array>
#include <charconv>
#include <initializer_list>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"

namespace zf {
namespace {

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Returns the first variable that is set and not empty, as a number of `least` or more.
std::optional<EnvNumber> first_number(const Environment& environment,
                                      std::initializer_list<const char*> names, int least) {
  for (const char* name : names) {
    const auto text = environment.get(name);
    if (!text || trim(*text).empty()) continue;
    const auto digits = trim(*text);
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < least) {
      throw Error(Exit::usage,
                  format_text("{}=\"{}\" is not a whole number of {} or more", name, *text, least),
                  format_text("unset {} or correct it", name));
    }
    return EnvNumber{value, name};
  }
  return std::nullopt;
}

/// Returns true in a batch script of Slurm. It has SLURM_LOCALID=0 like a task, but no step.
bool in_batch_script(const Environment& environment) {
  return environment.get("SLURM_JOB_ID") && !environment.get("SLURM_STEP_ID");
}

std::optional<EnvNumber> rank_by_launcher(const Environment& environment) {
  if (auto rank = first_number(environment,
                               {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                "MV2_COMM_WORLD_LOCAL_RANK", "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID"},
                               0))
    return rank;
  return in_batch_script(environment) ? std::nullopt : first_number(environment, {"SLURM_LOCALID"}, 0);
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
    if (index < nodes) return count;
    index -= nodes;
    if (rest != end && *rest++ != ',') return std::nullopt;
    counts = std::string_view(rest, end);
  }
  return std::nullopt;
}

/// Returns the number of tasks of this Slurm step on this node.
std::optional<EnvNumber> slurm_tasks(const Environment& environment) {
  constexpr const char* name = "SLURM_STEP_TASKS_PER_NODE";
  const auto counts = environment.get(name);
  const auto node = first_number(environment, {"SLURM_NODEID"}, 0);
  if (!counts || !node) return std::nullopt;
  const auto count = count_on_node(*counts, node->value);
  return count ? std::optional(EnvNumber{*count, name}) : std::nullopt;
}

/// The launchers other than torchrun and DeepSpeed: their variables of the local rank, and of the number of
/// local ranks.
constexpr std::array<std::pair<const char*, const char*>, 4> kLaunchers{
    {{"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
     {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
     {"MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
     {"PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"}}};

/// Returns how many ranks the launcher has started whose own rank is this LOCAL_RANK: a script may have
/// copied it there. A count of 1 says nothing, because that one process may have started several ranks by
/// hand.
std::optional<EnvNumber> count_behind_local_rank(const Environment& environment, int local_rank) {
  const auto several = [](std::optional<EnvNumber> count) {
    return count && count->value > 1 ? count : std::nullopt;
  };
  const auto is_equal = [&](const char* name) {
    const auto rank = first_number(environment, {name}, 0);
    return rank && rank->value == local_rank;
  };
  for (const auto& [of_rank, count] : kLaunchers) {
    if (!is_equal(of_rank)) continue;
    if (auto found = several(first_number(environment, {count}, 1))) return found;
  }
  const bool by_slurm = !in_batch_script(environment) && is_equal("SLURM_LOCALID");
  return by_slurm ? several(slurm_tasks(environment)) : std::nullopt;
}

}  // namespace

Environment Environment::of_this_process() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    variables.emplace(text.substr(0, equals),
                      text.substr(equals + 1));  // the first of two equal names counts, as in getenv
  }
  return Environment(std::move(variables));
}

std::optional<std::string> Environment::get(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> Environment::words() const {
  std::vector<std::string> words;
  words.reserve(variables_.size());
  for (const auto& [name, value] : variables_) words.push_back(format_text("{}={}", name, value));
  return words;
}

bool switched_off(const Environment& environment) {
  const std::string value = environment.get("ZF_TUNE").value_or("");
  return value == "off" || value == "0" || value == "no" || value == "false";
}

std::string launchers_rank(const Environment& environment) {
  const auto rank = rank_by_launcher(environment);
  if (!rank) return {};
  std::string text = format_text("{}={}", rank->variable, rank->value);
  if (rank->variable != "SLURM_LOCALID") return text;
  // A batch script, the steps that it starts, and jobs that they submit may all have SLURM_LOCALID=0.
  for (const char* const name : {"SLURM_STEP_ID", "SLURM_JOB_ID"}) {
    if (const auto value = environment.get(name)) text += format_text(" {}={}", name, *value);
  }
  return text;
}

std::optional<EnvNumber> local_rank(const Environment& environment) {
  const auto ours = first_number(environment, {"ZF_RANK"}, 0);
  if (!ours) return rank_by_launcher(environment);
  const auto then = environment.get("ZF_RANK_FROM");
  const std::string now = launchers_rank(environment);
  return !then || now.empty() || now == *then ? ours : rank_by_launcher(environment);
}

std::optional<VisibleDevices> devices_in(const Environment& environment, const std::string& variable) {
  const auto text = environment.get(variable);
  if (!text) return std::nullopt;
  VisibleDevices devices{{}, variable};
  std::string_view rest = *text;
  for (bool more = true; more;) {
    const auto comma = rest.find(',');
    const auto part = trim(rest.substr(0, comma));
    // This is the driver's own rule: the list ends at the first entry that names no device.
    if (part.empty() || part == "-1" || part == "NoDevFiles") break;
    devices.ids.emplace_back(part);
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
  }
  return devices;
}

std::optional<VisibleDevices> visible_devices(const Environment& environment, GpuRuntime runtime) {
  const bool has_hip = !environment.get("HIP_VISIBLE_DEVICES").value_or("").empty();
  auto cuda = devices_in(environment, "CUDA_VISIBLE_DEVICES");
  if (cuda && runtime == GpuRuntime::cuda) return cuda;
  const auto rocr = devices_in(environment, "ROCR_VISIBLE_DEVICES");
  auto hip = has_hip || !cuda ? devices_in(environment, "HIP_VISIBLE_DEVICES") : std::move(cuda);
  // https://github.com/ROCm/clr, rocclr/device/rocm/rocdevice.cpp: an empty list of HIP hides nothing.
  if (hip && runtime == GpuRuntime::hip && environment.get(hip->variable) == "") hip.reset();
  if (!rocr || !hip) return rocr ? rocr : hip;
  VisibleDevices within{{}, hip->variable + " within " + rocr->variable};
  for (const std::string& id : hip->ids) {
    if (id.starts_with("GPU-")) {
      within.ids.push_back(id);
      continue;
    }
    std::size_t position = 0;
    const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), position);
    if (error != std::errc() || end != id.data() + id.size() || position >= rocr->ids.size()) break;
    within.ids.push_back(rocr->ids[position]);
  }
  return within;
}

std::optional<EnvNumber> launched_ranks(const Environment& environment) {
  const auto rank = local_rank(environment);
  if (!rank) return std::nullopt;
  if (rank->variable == "SLURM_LOCALID") return slurm_tasks(environment);
  if (rank->variable == "LOCAL_RANK") {
    if (auto count = first_number(environment, {"LOCAL_WORLD_SIZE", "LOCAL_SIZE"}, 1)) return count;
    return count_behind_local_rank(environment, rank->value);
  }
  for (const auto& [of_rank, count] : kLaunchers) {
    if (rank->variable == of_rank) return first_number(environment, {count}, 1);
  }
  return std::nullopt;
}

std::optional<EnvNumber> local_rank_count(const Environment& environment, GpuRuntime runtime) {
  auto launched = first_number(environment,
                               {"LOCAL_WORLD_SIZE", "LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"},
                               1);
  if (launched) return launched;
  const auto devices = visible_devices(environment, runtime);
  if (!devices || devices->ids.empty()) return std::nullopt;
  return EnvNumber{static_cast<int>(devices->ids.size()), devices->variable};
}

}  // namespace zf
