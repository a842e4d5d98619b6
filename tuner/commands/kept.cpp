#include <fcntl.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/shared_arguments.hpp"
#include "commands/terminal.hpp"
#include "inspect/kept_ranks.hpp"
#include "os/environment.hpp"
#include "os/standard_streams.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

CommandSpec kept_spec() {
  return {"kept",
          "kept [--drop RUN] [--format text|json]",
          "Lists the arenas of trainers that were opened with keep: name, rank, last step, size, and how "
          "long the "
          "arena of a trainer that has ended is kept yet. With --drop it frees one.",
          {
              {"drop", 0, "RUN", "free what is kept under this name, of all ranks (e.g. run7)"},
              format_option(),
          }};
}

std::string text_of(const KeptRank& kept) {
  const std::string state = kept.answer.trainer != 0
                                ? format_text("in use by process {}", kept.answer.trainer)
                                : format_text("{} s left", kept.answer.left_ms / 1000);
  return format_text("{}: step {}, {}, {}\n", print(kept.name), kept.answer.step,
                     print_bytes(kept.answer.bytes), state);
}

/// The name needs no escapes: check_keep_name() allows none that do.
std::string json_of(const KeptRank& kept) {
  return format_text(
      R"({{"name": "{}", "rank": {}, "step": {}, "memory_bytes": {}, "keeper_pid": {}, "trainer_pid": {}, )"
      R"("left_s": {}}})",
      kept.name.name, kept.name.rank, kept.answer.step, kept.answer.bytes, kept.answer.keeper,
      kept.answer.trainer == 0 ? "null" : std::to_string(kept.answer.trainer),
      kept.answer.trainer == 0 ? std::to_string(kept.answer.left_ms / 1000) : "null");
}

/// Prints what is kept. Then throws if a keeper has not answered.
void print_list(const std::filesystem::path& folder, Format format) {
  const KeptHere here = look_for_kept(folder);
  if (!here.fault.empty())
    throw Error(Exit::usage, "zf-tune kept: " + here.fault,
                "set ZF_KEEP_FOLDER to the folder of the trainers");
  std::string text;
  std::string json;
  for (const KeptRank& kept : here.ranks) {
    text += text_of(kept);
    json += (json.empty() ? "\n  " : ",\n  ") + json_of(kept);
  }
  if (format == Format::json) {
    print_stdout("[{}{}]\n", json, json.empty() ? "" : "\n");
  } else if (!text.empty()) {
    print_stdout("{}", wrapped(text, list_columns(STDOUT_FILENO)));
  } else if (here.silent.empty()) {
    print_stdout("nothing is kept in {}\n", folder.string());
  }
  if (here.silent.empty()) return;
  std::string names;
  for (const KeepName& name : here.silent) names += (names.empty() ? "" : "; ") + print(name);
  throw Error(Exit::runtime_error, format_text("zf-tune kept: no answer from what keeps {}", names),
              "the process may be stopped: end it, and what it keeps (ps -C zf-optimizer shows it)");
}

/// Frees one arena. Returns once its socket is gone.
void drop(const std::filesystem::path& folder, const KeepName& name) {
  const std::filesystem::path path = keep_socket(folder, name);
  const auto kept = ask_keeper(folder, name, KeepRequest::drop);
  if (!kept) {
    const KeepLock lock(folder);
    if (!KeepChannel::connect(path)) unlink(path.c_str());  // its keeper has died, and no other one began
    return;
  }
  if (kept->answer.trainer != 0) {
    throw Error(Exit::runtime_error,
                format_text("zf-tune kept: {} is in use by process {}", print(name), kept->answer.trainer),
                "end that process first");
  }
  for (const Nanoseconds deadline = now_ns() + 2 * kSecondNs; file_id(path) && now_ns() < deadline;)
    usleep(1000);
}

Exit kept_run(const Arguments& arguments) {
  const Format format = format_argument(arguments);
  const std::filesystem::path folder = keep_folder(Environment::of_this_process().get("ZF_KEEP_FOLDER"));
  const auto name = arguments.text("drop");
  if (!name) {
    print_list(folder, format);
    return Exit::done;
  }
  bool is_there = false;
  for (const KeepName& kept : kept_names(folder)) {
    if (kept.name != *name) continue;
    drop(folder, kept);
    is_there = true;
  }
  if (!is_there)
    throw Error(Exit::usage,
                format_text("zf-tune kept: nothing is kept as \"{}\" in {}", *name, folder.string()),
                "zf-tune kept lists what is");
  return Exit::done;
}

}  // namespace

Command kept_command() { return {kept_spec(), kept_run}; }

}  // namespace zf
