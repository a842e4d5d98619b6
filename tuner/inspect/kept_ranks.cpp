#include "inspect/kept_ranks.hpp"

#include <cstddef>
#include <future>

#include "base/error.hpp"

namespace zf {

std::optional<KeptRank> ask_keeper(const std::filesystem::path& folder, const KeepName& name,
                                   KeepRequest request) {
  const std::filesystem::path path = keep_socket(folder, name);
  const auto channel = KeepChannel::connect(path);
  const auto answer = channel ? ask_unless_ended(path, *channel, request) : std::nullopt;
  return answer ? std::optional(KeptRank{name, *answer}) : std::nullopt;
}

KeptHere look_for_kept(const std::filesystem::path& folder) {
  KeptHere here = {.folder = folder, .fault = keep_folder_fault(folder)};
  if (!here.fault.empty()) return here;
  const std::vector<KeepName> names = kept_names(folder);
  std::vector<std::future<std::optional<KeptRank>>> answers;  // at once: each may take seconds
  for (const KeepName& name : names) {
    answers.push_back(std::async(std::launch::async | std::launch::deferred, ask_keeper, folder, name,
                                 KeepRequest::status));
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    try {
      if (auto rank = answers[i].get()) here.ranks.push_back(*std::move(rank));
    } catch (const Error& error) {
      if (error.exit() != Exit::usage) here.silent.push_back(names[i]);  // else none can be there
    }
  }
  return here;
}

}  // namespace zf
