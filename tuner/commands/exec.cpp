#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/shared_arguments.hpp"
#include "launch/apply_launch.hpp"
#include "launch/resolve_launch.hpp"
#include "launchers/local_rank.hpp"
#include "os/exec.hpp"
#include "os/standard_streams.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

CommandSpec exec_spec() {
  CommandSpec spec{
      "exec",
      "exec [--plan FILE] [options] [--] COMMAND [ARG ...]",
      "Binds this process as a plan says, then runs COMMAND in its place: its exit status and its signals "
      "are those of COMMAND.",
      {
          plan_option("the plan; before --, also without --plan (default: $ZF_PLAN, else plan.json)"),
          {"rank", 0, "N",
           "local rank (default: from LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, ..., SLURM_LOCALID; e.g. 0)"},
          {"cpus", 0, "WHICH",
           "which CPUs this process sees, if the plan does not tell: job (all ranks of this node share them) "
           "or rank (this rank has them alone: a container per rank) (default: find out; job under Slurm)",
           all_names<CpusOf>()},
          {"local_rank", 0, "N",
           "as --rank; DeepSpeed's launcher adds it to the command that it starts, so it is also added at "
           "the end of COMMAND (also before exec, and spelled --local-rank; e.g. 0)"},
          {"local-rank", 0, "N", "the same (e.g. 0)"},
          {"no-local-rank", 0, "", "do not add --local_rank to COMMAND"},
          {"keep-threads", 0, "",
           "keep OMP_NUM_THREADS=1 under torchrun, which sets it itself (default: the plan's number of "
           "threads; any other number that is set is kept)"},
          {"omp", 0, "WHAT",
           "what becomes of OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY and KMP_AFFINITY if OpenMP would "
           "bind "
           "threads by them against the plan: remove (take them out of COMMAND's environment) or keep "
           "(default: remove; values that agree with the plan are kept)",
           all_names<OpenmpVariables>()},
          {"memory-policy", 0, "WHAT",
           "the memory policy of COMMAND: plan (its nodes are preferred) or keep (the one that this process "
           "has) "
           "(default: the one that numactl or srun --mem-bind has set; without one, plan)",
           all_names<MemoryChoice>()},
          {"set-gpus", 0, "",
           "set CUDA_VISIBLE_DEVICES (AMD: ROCR_VISIBLE_DEVICES) to the plan's GPUs in the order of the "
           "ranks; "
           "fewer ranks than GPUs are spread over the packages as the plan's notes say (default: set "
           "nothing; "
           "a variable that is set is kept)"},
          {"dry-run", 0, "", "print what would happen, and start nothing"},
          {"force", 0, "",
           "start the command even if the plan does not fit; unbound if nothing else is possible"},
          {"quiet", 'q', "", "print no notes, only errors"},
      }};
  spec.wraps_command = true;
  return spec;
}

/// Returns the path as it was given: by --plan, by ZF_PLAN or by default. An empty ZF_PLAN counts as unset.
/// Throws Error(usage) if none was given and there is no plan.json.
std::filesystem::path plan_path(const Arguments& arguments, const Environment& environment) {
  const std::string variable = environment.get("ZF_PLAN").value_or("");
  return variable.empty() || arguments.has("plan") ? named_or_default_plan(arguments)
                                                   : std::filesystem::path(variable);
}

/// Returns a note if a Slurm job takes ./plan.json, which may be older than the job, because no plan was
/// published for it.
std::optional<std::string> unpublished_note(const Arguments& arguments, const Environment& environment) {
  const auto job = environment.get("SLURM_JOB_ID");
  if (!job || arguments.has("plan") || !environment.get("ZF_PLAN").value_or("").empty()) return std::nullopt;
  std::error_code unknown;
  const auto path = std::filesystem::absolute("plan.json", unknown);
  return format_text(
      "ZF_PLAN is not set in Slurm job {}, so {} is used, which may be older than the job; --plan plan.json "
      "takes it without this note",
      *job, path.string());
}

/// The rank that a launcher has put on the command line.
struct LocalRank {
  std::string option;  ///< as the launcher spelled it
  int value = 0;
};

/// Returns --local_rank or --local-rank, whichever is given. Throws Error(usage) if --rank, LOCAL_RANK or the
/// other spelling names another rank.
std::optional<LocalRank> local_rank_argument(const Arguments& arguments, const Environment& environment) {
  const std::string option = arguments.has("local_rank") ? "local_rank" : "local-rank";
  const auto value = arguments.integer(option, 0, 65535);
  if (!value) return std::nullopt;
  std::vector<std::pair<std::string, std::string>> others;  // how it is written, and the rank
  for (const char* const name : {"rank", "local-rank"}) {
    if (const auto text = arguments.text(name))
      others.emplace_back(format_text("--{} {}", name, *text), *text);
  }
  const std::string variable = environment.get("LOCAL_RANK").value_or("");
  if (!variable.empty()) others.emplace_back("LOCAL_RANK=" + variable, variable);
  for (const auto& [written, rank] : others) {
    if (parse_number<int>(rank) == value) continue;
    throw Error(Exit::usage,
                format_text("zf-tune exec: --{} {} and {} name different ranks", option, *value, written),
                "give one of them");
  }
  return LocalRank{option, *value};
}

/// Returns the launch that the options ask for; one that binds nothing if zf-tune is switched off.
Launch requested_launch(const Arguments& arguments, const std::optional<LocalRank>& local_rank,
                        const Environment& environment) {
  LaunchRequest request;
  request.cpus_of = named_argument<CpusOf>(arguments, "cpus");
  request.openmp = named_argument<OpenmpVariables>(arguments, "omp").value_or(request.openmp);
  request.memory = named_argument<MemoryChoice>(arguments, "memory-policy");
  if (switched_off(environment)) return {};
  request.force = arguments.has("force");
  request.sets_gpus = arguments.has("set-gpus");
  if (arguments.has("keep-threads")) request.torchruns_one = TorchrunsOne::kept;
  try {
    request.plan_path = plan_path(arguments, environment);
  } catch (const Error& error) {
    if (!request.force) throw;
    return unbound_launch(error);
  }
  request.rank = arguments.integer("rank", 0, 65535);
  if (local_rank) {
    request.rank = local_rank->value;
    if (const auto ranks = launched_ranks(environment)) request.ranks = ranks->value;
  }
  Launch launch = resolve_launch(request, environment);
  const bool by_plan = !launch.rank_source.empty();
  if (const auto note = unpublished_note(arguments, environment); note && by_plan)
    launch.notes.insert(launch.notes.begin(), *note);
  return launch;
}

Exit exec_run(const Arguments& arguments) {
  if (arguments.wrapped.empty()) {
    throw Error(Exit::usage, "zf-tune exec: no command given",
                "write it after --, e.g. zf-tune exec -- python train.py");
  }
  const Environment environment = Environment::of_this_process();
  const auto local_rank = local_rank_argument(arguments, environment);
  Launch launch = requested_launch(arguments, local_rank, environment);
  std::vector<std::string> command = arguments.wrapped;
  if (local_rank && !arguments.has("no-local-rank"))
    command.push_back(format_text("--{}={}", local_rank->option, local_rank->value));
  if (arguments.has("dry-run")) {
    print_stdout("{}", describe(launch, command));
    return Exit::done;
  }
  apply_launch(launch, arguments.has("force"));
  if (!arguments.has("quiet")) {
    for (const std::string& note : launch.notes) print_stderr("zf-tune exec: {}\n", one_line(note));
  }
  exec_or_throw(command);
}

}  // namespace

Command exec_command() { return {exec_spec(), exec_run}; }

}  // namespace zf
