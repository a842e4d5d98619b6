// Says what may follow on a command line that is being typed. Shells ask with `zf-tune --complete WORD ...`;
// scripts/completions has their side.
#pragma once

#include <string>
#include <vector>

#include "commands/cli.hpp"

namespace zf {

/// Returns what may stand in the place of the last of `words`, which are those behind "zf-tune" and end at
/// the cursor: a line for each word, with a tab and its meaning, or the line "/" if a file is due. Returns ""
/// if nothing is known.
std::string completions(const std::vector<CommandSpec>& commands, std::vector<std::string> words);

}  // namespace zf
