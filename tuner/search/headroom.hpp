// Says how much a job may differ from its workload before its plan costs time. Pure.
#pragma once

#include <optional>

#include "plan/choice.hpp"
#include "plan/evidence.hpp"
#include "plan/workload.hpp"

namespace zf {

/// The loss that headroom allows, relative.
inline constexpr double kHeadroomLoss = 0.05;
/// Headroom is not looked for beyond this factor.
inline constexpr double kMostHeadroom = 16;

/// Returns how much longer the period of the chosen candidate would be than the best measured one's,
/// relative, if training took `training` times and the step `step` times as long as measured. Precondition:
/// `chosen` is the id of an eligible, measured candidate.
double loss_if(const Evidence& evidence, const Workload& workload, int chosen, double training, double step);

/// Returns how much faster training, or longer the step, may get before another measured split would be
/// kHeadroomLoss better; at most kMostHeadroom. Returns nothing if no training was measured, if no other
/// eligible split was measured, or if one is that much better already. Precondition: as for loss_if().
std::optional<Headroom> headroom_of(const Evidence& evidence, const Workload& workload, int chosen);

}  // namespace zf
