// The fields of a workload in a plan and in a workload file (field_rules.hpp).
#pragma once

#include <cstdint>

#include "base/clock.hpp"
#include "plan/field_rules.hpp"
#include "plan/workload.hpp"

namespace zf {

// An hour, a hundred million kernels, a petabyte, a step a million times as long as ours (that of a tiny
// model). A larger figure has the wrong unit.
inline constexpr Whole kUpToAnHour{0, 3600 * kSecondNs};
inline constexpr Whole kUpToAnHourOnManyCores{0, 3600 * kSecondNs * 1024};
inline constexpr Whole kUpToAHundredMillion{0, 100'000'000};
inline constexpr Whole kUpToAPetabyte{0, 1'000'000'000'000'000};
inline constexpr Real kPositiveFactor{0, 1e6, Real::Ends::low_excluded};

/// The rule for the rate of copies: there is one if there are copies.
inline constexpr Whole copy_rate_rule(std::uint64_t copied_bytes) {
  return {copied_bytes == 0 ? 0U : 1U, kUpToAPetabyte.high};
}

template <class Io, MaybeConst<TrainingDemand> Struct>
void fields(Io& io, Struct& demand) {
  io.required("launches", demand.launches, kUpToAHundredMillion);
  io.required("launch_ns", demand.launch_ns, kUpToAnHour);
  io.required("gpu_ns", demand.gpu_ns, kUpToAnHour);
  io.required("host_bytes", demand.host_bytes, kUpToAPetabyte);
  io.required("gradient_bytes", demand.gradient_bytes, kUpToAPetabyte);
  io.required("parameter_bytes", demand.parameter_bytes, kUpToAPetabyte);
  io.required("copy_bytes_per_s", demand.copy_bytes_per_s,
              copy_rate_rule(demand.gradient_bytes + demand.parameter_bytes));
  io.optional("forward_share", demand.forward_share, Real{0, 1, Real::Ends::both_excluded});
  io.optional("first_group_share", demand.first_group_share, Real{0, 1});
  io.optional("last_forward_share", demand.last_forward_share, Real{0, 1});
  io.optional("last_gradient_ns", demand.last_gradient_ns, kUpToAnHour);
  io.optional("parallel_ns", demand.parallel_ns, kUpToAnHourOnManyCores);
}

template <class Io, MaybeConst<Workload> Struct>
void fields(Io& io, Struct& workload) {
  io.required("name", workload.name);
  io.required("params", workload.params, Whole{1});
  io.required("ranks", workload.ranks, Whole{1, 4096});
  io.required("update_interval", workload.update_interval, Whole{1, 1'000'000});
  io.required("mode", workload.mode);
  io.required("framework", workload.framework);
  io.optional("training", workload.training);
  io.optional("step_factor", workload.step_factor, kPositiveFactor);
}

}  // namespace zf
