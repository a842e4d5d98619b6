// Classes as features of Slurm's nodes, so that a job can ask for one: --constraint=zf-CLASS. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "survey/survey.hpp"

namespace zf {

/// The nodes that should answer, and the features that each has.
using NodeFeatures = std::map<std::string, std::vector<std::string>>;

/// Reads a line for each node or list of nodes; behind a blank, its features with commas, as
/// `sinfo -h -N -o '%N %f'` prints them. Throws Error(usage) with `what` for a name or a feature that is
/// none.
NodeFeatures parse_node_features(std::string_view text, std::string_view what);

/// Returns the lines for a shell that give each node of a class the feature zf-CLASS, and take it from all
/// others. Each keeps its other features, because scontrol replaces all of them. Behind them, as comments,
/// the lines for slurm.conf, which has what holds after a restart. Odd nodes are of no class.
std::string feature_lines(const Survey& survey, const NodeFeatures& present);

}  // namespace zf
