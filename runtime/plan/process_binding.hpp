// The rule for which CPUs a process gets, and the line that carries a rank's binding from the launcher to the
// runtime. docs/launch.md describes both. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/enum_names.hpp"
#include "os/environment.hpp"
#include "plan/rank_binding.hpp"
#include "plan/workload.hpp"

namespace zf {

/// Which part of its rank's home a process was started on.
enum class StartedOn {
  home,      ///< the whole home
  training,  ///< the training side
  nothing,   ///< the launcher did not bind it
};

template <>
inline constexpr auto kEnumNames<StartedOn> = std::to_array<EnumName<StartedOn>>(
    {{StartedOn::home, "home"}, {StartedOn::training, "training"}, {StartedOn::nothing, "nothing"}});

/// The part of a plan that one process needs, fitted to the present allocation. It travels in the environment
/// variable ZF_BINDING, so it needs no file and no descriptor, and it works in another PID namespace.
struct ProcessBinding {
  RankBinding rank;  ///< without its GPUs
  Framework framework = Framework::unknown;
  StartedOn started_on = StartedOn::nothing;
  std::string plan_id = {};  ///< plan_id() of the plan that it was made by; empty: not known
  /// The memory policy of others that the process keeps (given_policy.hpp); absent: it prefers the
  /// optimizer's nodes.
  std::optional<ThreadPolicy> kept = {};
  bool operator==(const ProcessBinding&) const = default;
};

/// The environment variable that holds the line.
inline constexpr const char* kBindingVariable = "ZF_BINDING";
/// The environment variable that lists the CPUs which the process might use before it was bound.
inline constexpr const char* kAllowedVariable = "ZF_ALLOWED";
/// The longest line, in bytes.
inline constexpr std::size_t kMaxBindingBytes = 4096;

/// The CPUs on which a process is started, and the right value of OMP_NUM_THREADS for them.
struct ProcessCpus {
  CpuSet cpus;
  int threads = 1;
  StartedOn started_on = StartedOn::home;
};

/// Returns the CPUs on which the training process of a rank is started. This is the rule: a process gets only
/// the training side if our runtime runs the optimizer (framework `native`), because then a process of ours
/// uses the other side. For any other framework it gets the whole home, so that no CPU is left that no thread
/// uses. If such a process opens our runtime all the same, the runtime narrows it then (zf_options.narrow).
ProcessCpus process_cpus(const RankBinding& rank, Framework framework);

/// Returns the line. Throws Error(infeasible) if it is longer than kMaxBindingBytes.
std::string print_binding(const ProcessBinding& binding);

/// Reads the line back. Throws Error(usage) that begins with "ZF_BINDING: " if it is malformed, or if its
/// sides do not lie in its home.
ProcessBinding parse_binding(std::string_view line);

/// Returns the binding of ZF_BINDING if it is that of this process. It is another process's if a launcher
/// that was itself started under zf-tune exec has started this one as another rank (see local_rank()). Throws
/// as parse_binding() does.
std::optional<ProcessBinding> own_binding(const Environment& environment);

}  // namespace zf
