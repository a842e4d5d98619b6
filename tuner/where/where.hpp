// Finds the home of a process that no wrapper has started: zf_runtime.bind() asks for it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/enum_names.hpp"
#include "launch/launch.hpp"
#include "os/environment.hpp"

namespace zf {

/// Which processes have the list of visible GPUs in this process's environment?
enum class ListOf {
  process,  ///< this process alone: Ray has given the GPUs to it
  nothing,  ///< there is no list that counts: the number of the rank decides
  others,   ///< this process has no GPU, and others of its kind may have some
};

template <>
inline constexpr auto kEnumNames<ListOf> = std::to_array<EnumName<ListOf>>({{ListOf::process, "process"},
                                                                            {ListOf::nothing, "nothing"},
                                                                            {ListOf::others, "others"}});

/// Which ranks does the present mask bound?
enum class MaskOf {
  job,    ///< all ranks of the job, and no others
  outer,  ///< the rank of ZF_BINDING, which has started this one; the caller has set the mask that was before
};

template <>
inline constexpr auto kEnumNames<MaskOf> = std::to_array<EnumName<MaskOf>>({{MaskOf::job, "job"},
                                                                            {MaskOf::outer, "outer"}});

struct WhereRequest {
  std::optional<int> rank;          ///< local rank; absent: not known
  std::optional<int> ranks;         ///< on this node; absent: not known
  bool is_users_rank = false;       ///< the user has named the rank
  std::filesystem::path plan_path;  ///< empty: the plan of this node's class is taken, else one is made
  std::filesystem::path plans;      ///< the folder with the plans of classes
  std::optional<ListOf> list_of;    ///< absent: find out
  std::optional<MaskOf> mask_of;    ///< absent: find out, as zf-tune exec does
};

struct Where {
  Launch launch;
  std::string source;  ///< what says the rank: "GPU 0000:3b:00.0"; empty: the caller has said it
  std::string plan;    ///< a path, or words such as "a plan for 2 ranks"
  bool is_file = false;
};

/// Returns where the process belongs that has started this one, and has its environment and its mask. Ranks
/// ask alone, and do not talk. With a plan, a process with one GPU has the home of that GPU. Without one, a
/// process with GPUs of its own has their homes in a plan for all GPUs of the node; ranks that share GPUs
/// divide their homes; other ranks divide the node by their numbers. A list of GPUs is shared if it has as
/// many entries as there are ranks, or if the launcher has it, too. Reads the whole machine, and changes the
/// mask of the calling thread. Throws Error that says what to give if the home is not known.
Where find_where(const WhereRequest& request, const Environment& environment);

/// Returns the keys rank, source, plan, file, cpus, mems, set, notes and openmp (the variables by which
/// OpenMP would pin threads of the home). `zf-tune where --format json` prints it.
std::string where_json(const Where& where, const Environment& environment);

/// Returns the same in lines.
std::string where_text(const Where& where);

}  // namespace zf
