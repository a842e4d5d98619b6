#include "where/where.hpp"

#include <unistd.h>

#include "commands/commands.hpp"
#include "commands/shared_arguments.hpp"
#include "commands/terminal.hpp"
#include "launchers/local_rank.hpp"
#include "os/standard_streams.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

CommandSpec where_spec() {
  return {
      "where",
      "where [--plan FILE] [--rank N --ranks N] [--format text|json]",
      "Says which home a rank has that no zf-tune exec has started, and binds nothing. zf_runtime.bind() "
      "asks "
      "it.",
      {
          plan_option(
              "the plan (default: $ZF_PLAN, else that of this node's class in --plans, else one is made)"),
          {"plans", 0, "FOLDER", "folder with one plan per class of nodes (default: /etc/zf-tune/plans)"},
          {"rank", 0, "N", "local rank (default: from the launcher's variables; e.g. 0)"},
          {"ranks", 0, "N", "number of ranks on this node (default: from the launcher's variables; e.g. 2)"},
          {"named", 0, "", "the user has named the rank, so that it counts more than the GPU"},
          {"list", 0, "WHICH",
           "which processes have the list of visible GPUs: process (this one alone), nothing (the list does "
           "not count, the number of the rank does) or others (this process has no GPU, and others may have "
           "some) (default: find out)",
           all_names<ListOf>()},
          {"mask", 0, "WHICH",
           "which ranks have the CPUs that this process sees: job (all ranks, and no others) or outer (the "
           "job that started this one as another rank than ZF_BINDING names) (default: find out, as exec "
           "does)",
           all_names<MaskOf>()},
          format_option(),
      }};
}

/// Adds the rank and the number of ranks that the launcher says, where they were not given. If another rank
/// was given, the launcher's number of ranks is not its own.
void add_launchers_numbers(const Environment& environment, WhereRequest& request) {
  try {
    const auto rank = local_rank(environment);
    if (!rank || request.rank.value_or(rank->value) != rank->value) return;
    request.rank = rank->value;
    if (const auto ranks = launched_ranks(environment); ranks && !request.ranks) request.ranks = ranks->value;
  } catch (const Error&) {  // malformed
    if (!request.rank) throw;
  }
}

Exit where_run(const Arguments& arguments) {
  const Format format = format_argument(arguments);
  const Environment environment = Environment::of_this_process();
  WhereRequest request;
  request.plan_path = arguments.text("plan").value_or(environment.get("ZF_PLAN").value_or(""));
  request.plans = arguments.text("plans").value_or("/etc/zf-tune/plans");
  request.list_of = named_argument<ListOf>(arguments, "list");
  request.mask_of = named_argument<MaskOf>(arguments, "mask");
  request.is_users_rank = arguments.has("named");
  request.rank = arguments.integer("rank", 0, 65535);
  request.ranks = arguments.integer("ranks", 1, 4096);
  add_launchers_numbers(environment, request);
  if (request.rank && request.ranks && *request.rank >= *request.ranks) {
    throw Error(Exit::usage,
                format_text("zf-tune where: rank {} is not below the number of ranks, {}", *request.rank,
                            *request.ranks),
                "local ranks count from 0: correct --rank or --ranks");
  }
  const Where where = find_where(request, environment);
  print_stdout("{}", format == Format::json ? where_json(where, environment)
                                            : wrapped(where_text(where), list_columns(STDOUT_FILENO)));
  return Exit::done;
}

}  // namespace

Command where_command() { return {where_spec(), where_run}; }

}  // namespace zf
