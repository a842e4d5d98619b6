// zf-tune: decides which cores train and which run the optimizer. This file finds the command to run;
// commands/ holds the commands.

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/address_space.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/version.hpp"
#include "commands/commands.hpp"
#include "commands/completions.hpp"
#include "commands/terminal.hpp"
#include "os/standard_streams.hpp"
#include "text/command_line.hpp"
#include "text/nearest.hpp"
#include "text/wrap.hpp"

namespace {

using zf::Command;
using zf::Error;
using zf::Exit;

std::vector<Command> all_commands() {
  return {
      zf::tune_command(),    zf::probe_command(),  zf::plan_command(),   zf::explain_command(),
      zf::check_command(),   zf::exec_command(),   zf::export_command(), zf::doctor_command(),
      zf::verify_command(),  zf::record_command(), zf::trial_command(),  zf::bench_command(),
      zf::publish_command(), zf::fit_command(),    zf::where_command(),  zf::survey_command(),
      zf::kept_command(),
  };
}

/// Returns the width of help texts: that of the terminal, but at most kHelpWidth.
std::size_t help_width() { return std::min(zf::kHelpWidth, zf::terminal_columns(STDOUT_FILENO)); }

std::string overview() {
  const std::size_t width = help_width();
  std::string text =
      zf::hanging("", "Usage: zf-tune [COMMAND] [options]", width) + "\n" +
      zf::hanging("",
                  "Finds out which cores of this node should train and which should run the CPU optimizer. "
                  "Without a command, zf-tune runs tune.",
                  width) +
      "\nCommands:\n";
  for (const Command& command : all_commands()) {
    const std::string& summary = command.spec.summary;
    text += zf::hanging(zf::format_text("  {:9} ", command.spec.name), summary, width);
  }
  return text + "\n" +
         zf::hanging(
             "",
             "zf-tune COMMAND --help shows the options of a command. Exit codes: 0 done, 1 runtime "
             "error, 2 usage, 3 the plan does not fit, or something was found (verify, survey, "
             "doctor --strict), 4 no plan is possible, 130 after Ctrl-C, 143 after SIGTERM, 129 after "
             "SIGHUP. exec ends with the "
             "status of its command, or with 126 or 127 if that cannot be started.",
             width);
}

Exit print_version() {
  zf::print_stdout("zf-tune {}\n", zf::version());
  return Exit::done;
}

Exit run_with_arguments(const Command& command, const zf::Arguments& arguments) {
  if (arguments.help) {
    zf::print_stdout("{}", zf::help_of(command.spec, help_width()));
    return Exit::done;
  }
  if (arguments.has("version")) return print_version();
  return command.run(arguments);
}

/// Throws because of a word behind options, which names no command there.
[[noreturn]] void refuse_late_word(const std::string& word, const std::string& option) {
  for (const Command& command : all_commands()) {
    if (command.spec.name != word) continue;
    throw Error(
        Exit::usage, zf::format_text("zf-tune: \"{}\" stands behind an option", word),
        zf::format_text("write the command first: zf-tune {} {} ...", word, zf::shell_quoted(option)));
  }
  throw Error(Exit::usage, zf::format_text("zf-tune: \"{}\" is one argument too many", word),
              "see zf-tune --help");
}

/// Runs tune for a user that named no command: messages name none either, and --version may follow options.
Exit run_unnamed(Command tune, const std::vector<std::string>& words) {
  tune.spec.options.push_back({"version", 'V', "", "print the version"});
  tune.spec.wraps_command = true;  // the first word that is no option ends them
  try {
    const zf::Arguments arguments = zf::parse_arguments(tune.spec, words);
    if (!arguments.wrapped.empty()) refuse_late_word(arguments.wrapped.front(), words.front());
    return run_with_arguments(tune, arguments);
  } catch (const Error& error) {
    constexpr std::string_view kLead = "zf-tune tune: ";
    const std::string_view what = error.what();
    if (!what.starts_with(kLead)) throw;
    throw Error(error.exit(), zf::format_text("zf-tune: {}", what.substr(kLead.size())));
  }
}

/// Returns what to do instead of a command that does not exist.
std::string advice_for(const std::string& word) {
  if (word.ends_with(".json"))
    return zf::format_text("to explain a plan: zf-tune explain {}", zf::shell_quoted(word));
  std::vector<std::string> names{"help", "--version"};
  for (const Command& command : all_commands()) names.push_back(command.spec.name);
  return zf::did_you_mean(word, names).value_or("see zf-tune --help");
}

/// Moves the command's name before these options: --local_rank=N, which DeepSpeed's launcher puts before our
/// own words, and --plan.
void move_name_to_front(std::vector<std::string>& words) {
  const auto is_movable = [](std::string_view word) {
    const std::string_view name = word.substr(0, word.find('='));
    return name == "--local_rank" || name == "--local-rank" || name == "--plan" || name == "-p";
  };
  std::size_t at = 0;
  while (at < words.size() && is_movable(words[at])) at += words[at].find('=') == std::string::npos ? 2 : 1;
  if (at >= words.size() || words[at].starts_with('-')) return;
  const auto name = words.begin() + static_cast<std::ptrdiff_t>(at);
  std::rotate(words.begin(), name, name + 1);
}

void print_completions(const std::vector<std::string>& words) {
  std::vector<zf::CommandSpec> specs;
  for (const Command& command : all_commands()) specs.push_back(command.spec);
  zf::print_stdout("{}", zf::completions(specs, words));
}

Exit run(std::vector<std::string> words) {
  move_name_to_front(words);
  const std::string first = words.empty() ? "" : words.front();
  if (first == "--complete") {
    print_completions({words.begin() + 1, words.end()});
    return Exit::done;
  }
  if (first == "--version" || first == "-V") return print_version();
  if (first == "--help" || first == "-h" || first == "help") {
    for (const Command& command : all_commands())
      if (std::find(words.begin() + 1, words.end(), command.spec.name) != words.end())
        return run({command.spec.name, "--help"});
    if (words.size() == 2 && !words[1].starts_with('-')) return run({words[1], "--help"});
    zf::print_stdout("{}", overview());
    return Exit::done;
  }
  if (words.empty() || first.starts_with('-')) return run_unnamed(zf::tune_command(), words);
  words.erase(words.begin());
  for (const Command& command : all_commands()) {
    if (command.spec.name == first)
      return run_with_arguments(command, zf::parse_arguments(command.spec, words));
  }
  throw Error(Exit::usage, zf::format_text("zf-tune: there is no command \"{}\"", first), advice_for(first));
}

int print_error(Exit exit, std::string_view what) {
  zf::flush_stdout();  // the results before it may go to the same terminal
  const bool named = what.starts_with("zf-tune");
  zf::print_stderr("{}{}\n", named ? "" : "zf-tune: ", what);
  return static_cast<int>(exit);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    zf::guard_standard_streams();
    const Exit exit = run(std::vector<std::string>(argv + 1, argv + argc));
    if (const int error = zf::flush_stdout(); error != 0) {
      return print_error(exit == Exit::done ? Exit::runtime_error : exit,
                         "cannot write standard output: " + zf::errno_text(error));
    }
    return static_cast<int>(exit);
  } catch (const Error& error) {
    return print_error(error.exit(), error.what());
  } catch (const std::bad_alloc&) {
    return print_error(Exit::runtime_error, zf::out_of_memory());
  } catch (const std::exception& error) {
    return print_error(Exit::runtime_error, error.what());
  }
}
