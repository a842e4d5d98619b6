// Says how much a job may differ from its workload before its plan costs time. Pure.
#pragma once

#include <optional>
#include <vector>

#include "plan/choice.hpp"
#include "plan/evidence.hpp"
#include "plan/workload.hpp"

namespace zf {

/// The loss that headroom allows, relative. A definition: every text says 5 %.
inline constexpr double kHeadroomLoss = 0.05;
/// Headroom is not looked for beyond this factor: no job differs so much from its workload.
inline constexpr double kMostHeadroom = 16;

/// Returns how much longer the period of the chosen candidate would be than the best measured one's,
/// relative, if training took `training` times and the step `step` times as long as measured. The periods are
/// multiplied by `shortest`, one factor a candidate, if it is not empty. Precondition: `chosen` is the id of
/// an eligible, measured candidate.
double loss_if(const Evidence& evidence, const Workload& workload, int chosen, double training, double step,
               const std::vector<double>& shortest = {});

/// Returns how much faster training, or longer the step, may get before another measured split would be
/// kHeadroomLoss better; at most kMostHeadroom. Every other split counts with the lower limit of the 95 %
/// interval of its difference to the chosen one. Returns nothing if equal splits may differ by more than
/// kHeadroomLoss, if no training was measured, if no other eligible split was measured, or if one is, or for
/// all that is known may be, that much better already.
/// Precondition: as for loss_if().
std::optional<Headroom> headroom_of(const Evidence& evidence, const Workload& workload, int chosen);

}  // namespace zf
