// Writes a plan in the form that another launcher reads. An export follows the plan exactly or is refused.
// Pure.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"

namespace zf {

/// The text that a consumer reads, and notes that its user must know.
struct Export {
  std::string text;                ///< ends with a newline
  std::vector<std::string> notes;  ///< one line each: how to use it, and where the consumer may not obey
};

/// The number of ranks that one export covers.
enum class Ranks {
  each,   ///< one line per rank, or only the rank that --rank names
  one,    ///< a single rank: --rank must name it, unless the plan has only one
  whole,  ///< the launcher starts all of them
};

/// A configuration of the consumer that a plan is merged into.
struct ConfigFile {
  std::filesystem::path path;  ///< as the user gave it, for messages
  std::string text;
};

/// The plan and the ranks to cover, selected by Consumer::ranks.
struct ExportInput {
  const Plan& plan;
  std::vector<RankBinding> ranks;
  std::filesystem::path plan_path;   ///< absolute: jobs start in other folders
  std::optional<ConfigFile> config;  ///< only if Consumer::takes_config
};

struct Consumer {
  std::string_view name;  ///< of --for
  std::string_view reads;
  Ranks ranks;
  bool takes_config;  ///< --config may be given: the export is then that file with the plan merged in
  /// Throws Error(infeasible) with the reason and a remedy if the consumer would carry out something else
  /// than the plan.
  Export (*write)(const ExportInput& input);
};

/// Returns all consumers in the order of the help. They get the CPUs on which the rule starts a process (see
/// process_cpus()); DeepSpeed always gets both sides.
const std::vector<Consumer>& consumers();

/// The plan to export, and the options of the user.
struct ExportRequest {
  const Plan& plan;
  std::filesystem::path plan_path;  ///< absolute
  std::optional<int> rank = {};
  std::optional<ConfigFile> config = {};
};

/// Returns the export of a plan for the consumer `name`. Throws Error(usage) if the consumer is unknown, the
/// plan lacks the rank, or a rank or a configuration is needed but not given or given but not needed. Throws
/// as Consumer::write does.
Export export_plan(std::string_view name, const ExportRequest& request);

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
