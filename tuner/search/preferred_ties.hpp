// Looks for splits that could tie with the best one and be preferred to it. Pure.
#pragma once

#include <vector>

#include "search/families.hpp"

namespace zf {

/// Returns the sizes that the judgement would prefer among those that may tie with the best one, in its
/// family. If the sides overlap on divided homes, this is the smallest one with headroom, or else one that
/// loses less if the job is not as told. Without training it is the smallest one. Otherwise it is half of the
/// smallest tie, in case that steps faster. May return what was tried. Precondition: something was tried.
std::vector<SplitShape> preferred_ties(const Families& families, double tie);

}  // namespace zf
