// Puts the choice of a trial in words. Pure.
#pragma once

#include <string>

#include "plan/trial_result.hpp"
#include "plan/workload.hpp"

namespace zf {

/// Returns why the winner of a trial that judge_trial() has judged won, and how the next best split and
/// unbound compare with it.
std::string reason_of(const Trial& trial, Mode mode);

}  // namespace zf
