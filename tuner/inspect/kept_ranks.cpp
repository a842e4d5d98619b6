#include "inspect/kept_ranks.hpp"

#include "base/error.hpp"

namespace zf {

std::optional<KeptRank> ask_keeper(const std::filesystem::path& folder, const KeepName& name,
                                   KeepRequest request) {
  const auto channel = KeepChannel::connect(keep_socket(folder, name));
  if (!channel) return std::nullopt;
  return KeptRank{name, ask(*channel, request)};
}

KeptHere look_for_kept(const std::filesystem::path& folder) {
  KeptHere here = {.folder = folder, .fault = keep_folder_fault(folder)};
  if (!here.fault.empty()) return here;
  for (const KeepName& name : kept_names(folder)) {
    try {
      if (auto rank = ask_keeper(folder, name, KeepRequest::status)) here.ranks.push_back(*std::move(rank));
    } catch (const Error&) {
      here.silent.push_back(name);
    }
  }
  return here;
}

}  // namespace zf
