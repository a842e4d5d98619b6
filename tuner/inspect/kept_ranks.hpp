// Asks the processes that keep arenas on this node.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "ipc/keep_channel.hpp"
#include "ipc/keep_folder.hpp"

namespace zf {

/// A rank, and what the keeper of its arena answers.
struct KeptRank {
  KeepName name;
  KeepAnswer answer;
};

/// Returns what a keeper answers; nothing if it has died. Throws Error(runtime_error) if it does not answer.
std::optional<KeptRank> ask_keeper(const std::filesystem::path& folder, const KeepName& name,
                                   KeepRequest request);

/// The arenas that a trainer of this user would find.
struct KeptHere {
  std::filesystem::path folder;
  std::string fault = {};             ///< why nothing can be kept there; empty: it can
  std::vector<KeptRank> ranks = {};   ///< their keepers answer; in alphabetical order
  std::vector<KeepName> silent = {};  ///< their keepers do not answer
};
/// Asks all keepers of the folder. Changes nothing. Waits at most 15 s for keepers that do not answer.
KeptHere look_for_kept(const std::filesystem::path& folder);

}  // namespace zf
