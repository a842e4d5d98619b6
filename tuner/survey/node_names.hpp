// Names of nodes as Slurm and ClusterShell fold them: "gpu[001-604,606-613],login1". Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zf {

/// The most names that a list may have.
inline constexpr std::size_t kMostNodes = 100'000;

/// Returns whether this can be a node's name, and so a file's: letters, digits, dots, dashes and underscores,
/// with a letter or a digit first, and at most 200 of them.
bool is_node_name(std::string_view name);

/// Returns the names as one list, in which the last number of like names is folded: the same names in any
/// order give the same list. unfolded_names() reads it back.
std::string folded_names(const std::vector<std::string>& names);

/// Returns the names of a list. A name may have several brackets. Blanks, too, separate names. Throws
/// Error(usage) that names `what` (the flag) and the first part that is wrong, or if there are more than
/// kMostNodes.
std::vector<std::string> unfolded_names(std::string_view list, std::string_view what);

}  // namespace zf
