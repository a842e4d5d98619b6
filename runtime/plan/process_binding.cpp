#include "plan/process_binding.hpp"

#include <charconv>
#include <map>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "launchers/local_rank.hpp"

namespace zf {
namespace {

constexpr std::string_view kVersion = "zf-binding/1";

[[noreturn]] void fail(const std::string& what) {
  throw Error(Exit::usage, format_text("{}: {}", kBindingVariable, what),
              "start the job under zf-tune exec, or unset ZF_BINDING");
}

/// The words "name=value" of the line. The caller must read each exactly once.
class Words {
 public:
  explicit Words(std::string_view line) {
    if (line.size() > kMaxBindingBytes)
      fail(format_text("has {} bytes, more than {}", line.size(), kMaxBindingBytes));
    const std::string_view version = next(line);
    if (version != kVersion) fail(format_text("does not begin with {}", kVersion));
    while (!line.empty()) {
      const std::string_view word = next(line);
      const auto equals = word.find('=');
      if (equals == std::string_view::npos) fail(format_text("\"{}\" is not NAME=VALUE", word));
      const auto [position, is_new] = values_.emplace(word.substr(0, equals), word.substr(equals + 1));
      if (!is_new) fail(format_text("{} stands there twice", position->first));
    }
  }

  std::string take(const std::string& name) {
    const auto found = values_.find(name);
    if (found == values_.end()) fail(format_text("{} is missing", name));
    std::string value = std::move(found->second);
    values_.erase(found);
    return value;
  }

  bool has(const std::string& name) const { return values_.contains(name); }
  std::string take_or_empty(const std::string& name) { return has(name) ? take(name) : ""; }

  int take_count(const std::string& name, int least) {
    const std::string text = take(name);
    int value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end || value < least)
      fail(format_text("{} is \"{}\", not a whole number of {} or more", name, text, least));
    return value;
  }

  bool take_flag(const std::string& name) {
    const std::string text = take(name);
    if (text != "yes" && text != "no") fail(format_text("{} is \"{}\", neither yes nor no", name, text));
    return text == "yes";
  }

  /// Takes a name of an enum's value. `allowed` says in words what else it could have been.
  template <NamedEnum Enum>
  Enum take_named(const std::string& name, const std::string& allowed) {
    const std::string text = take(name);
    if (const auto value = value_named<Enum>(text)) return *value;
    fail(format_text("{} is \"{}\", not {}", name, text, allowed));
  }

  CpuSet take_cpus(const std::string& name) {
    return parse_cpu_list(take(name), kBindingVariable + (": " + name));
  }
  NodeSet take_nodes(const std::string& name) {
    return parse_node_list(take(name), kBindingVariable + (": " + name));
  }

  void end() const {
    if (!values_.empty()) fail(format_text("{} is not known to this version", values_.begin()->first));
  }

 private:
  /// Removes the first word from the line and returns it.
  static std::string_view next(std::string_view& line) {
    const auto blank = line.find(' ');
    const std::string_view word = line.substr(0, blank);
    line = blank == std::string_view::npos ? std::string_view() : line.substr(blank + 1);
    return word;
  }

  std::map<std::string, std::string> values_;
};

}  // namespace

ProcessCpus process_cpus(const RankBinding& rank, Framework framework) {
  if (framework == Framework::native && !rank.shared)
    return {rank.training.cpus, rank.training.threads, StartedOn::training};
  return {rank.home.cpus, rank.home.threads, StartedOn::home};
}

std::string print_binding(const ProcessBinding& binding) {
  const RankBinding& rank = binding.rank;
  std::string line = format_text(
      "{} plan={} rank={} framework={} started_on={} home={} home_threads={} training={} threads={} "
      "optimizer={} mems={} policy={} shared={}",
      kVersion, binding.plan_id, rank.rank, name_of(binding.framework), name_of(binding.started_on),
      print(rank.home.cpus), rank.home.threads, print(rank.training.cpus), rank.training.threads,
      print(rank.optimizer.cpus), print(rank.optimizer.mems), name_of(rank.optimizer.memory_policy),
      rank.shared ? "yes" : "no");
  if (rank.optimizer.threads) line += format_text(" optimizer_threads={}", *rank.optimizer.threads);
  if (binding.kept)
    line += format_text(" kept_policy={} kept_nodes={}", name_of(binding.kept->policy),
                        print(binding.kept->nodes));
  if (line.size() > kMaxBindingBytes) {
    throw Error(Exit::infeasible,
                format_text("the binding of rank {} needs {} bytes in the environment, more than {}",
                            rank.rank, line.size(), kMaxBindingBytes),
                "its CPU lists have too many gaps: give the job CPUs in fewer pieces");
  }
  return line;
}

ProcessBinding parse_binding(std::string_view line) {
  Words words(line);
  ProcessBinding binding;
  RankBinding& rank = binding.rank;
  binding.plan_id = words.take_or_empty("plan");
  rank.rank = words.take_count("rank", 0);
  binding.framework = words.take_named<Framework>("framework", "one of " + all_names<Framework>());
  binding.started_on = words.take_named<StartedOn>("started_on", all_names<StartedOn>(", ", " or "));
  rank.home = {words.take_cpus("home"), words.take_count("home_threads", 1)};
  rank.training = {words.take_cpus("training"), words.take_count("threads", 1)};
  rank.optimizer.cpus = words.take_cpus("optimizer");
  rank.optimizer.mems = words.take_nodes("mems");
  rank.optimizer.memory_policy =
      words.take_named<MemoryPolicy>("policy", all_names<MemoryPolicy>(", ", " or "));
  rank.shared = words.take_flag("shared");
  if (words.has("optimizer_threads")) rank.optimizer.threads = words.take_count("optimizer_threads", 1);
  if (words.has("kept_policy")) {
    const auto policy = words.take_named<GivenPolicy>("kept_policy", "one of " + all_names<GivenPolicy>());
    binding.kept = ThreadPolicy{policy, words.take_nodes("kept_nodes")};
  }
  words.end();
  if (rank.training.cpus.empty() || rank.optimizer.cpus.empty() ||
      !rank.home.cpus.contains(rank.both_sides()))
    fail("training and optimizer must lie in home, and neither may be empty");
  return binding;
}

std::optional<ProcessBinding> own_binding(const Environment& environment) {
  const auto line = environment.get(kBindingVariable);
  if (!line || line->empty()) return std::nullopt;
  const auto rank = local_rank(environment);
  if (!rank || rank->variable != "ZF_RANK") return std::nullopt;
  ProcessBinding binding = parse_binding(*line);
  if (binding.rank.rank != rank->value) return std::nullopt;
  return binding;
}

}  // namespace zf
