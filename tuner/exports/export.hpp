// A plan in the words of another launcher: true to the plan, or refused. Pure.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"

namespace zf {

/// What a consumer reads, and what its user has to know.
struct Export {
  std::string text;                ///< ends with a newline
  std::vector<std::string> notes;  ///< one line each: how it is used, and where the consumer may not obey
};

/// How many ranks one export speaks of.
enum class Ranks {
  each,   ///< one line per rank, or the one that was asked for
  one,    ///< a single rank: it must be said which, unless the plan has no other
  whole,  ///< the launcher starts all of them
};

/// The ranks to speak of, already picked according to Consumer::ranks.
struct ExportInput {
  const Plan& plan;
  std::vector<RankBinding> ranks;
  std::filesystem::path plan_path;  ///< absolute: jobs start in other folders
};

struct Consumer {
  std::string_view name;  ///< of --for
  std::string_view reads;
  Ranks ranks;
  /// Throws Error(infeasible), with the reason and the way out, for what the consumer would turn into
  /// something else.
  Export (*write)(const ExportInput& input);
};

/// All of them, in the order of the help. The launchers get the training CPUs; the optimizer, which
/// zf-optimizer binds by itself, is in the plan. DeepSpeed alone binds both.
const std::vector<Consumer>& consumers();

/// `name`'s text for a plan. Throws Error(usage) for an unknown consumer, a rank that the plan lacks, a rank
/// missing or too much; else as Consumer::write.
Export export_plan(std::string_view name, const Plan& plan, const std::filesystem::path& plan_path,
                   std::optional<int> rank);

Export deepspeed_export(const ExportInput& input);
Export env_export(const ExportInput& input);
Export hwloc_export(const ExportInput& input);
Export mpirun_export(const ExportInput& input);
Export numactl_export(const ExportInput& input);
Export openmp_export(const ExportInput& input);
Export slurm_export(const ExportInput& input);
Export taskset_export(const ExportInput& input);
Export torchrun_export(const ExportInput& input);

}  // namespace zf
