#include "commands/cli.hpp"

// Words are not divided at commas: no argument has a NUL.
#define CXXOPTS_VECTOR_DELIMITER '\0'
#include <cxxopts.hpp>

#include "base/error.hpp"
#include "base/format.hpp"
#include "commands/option_words.hpp"
#include "text/command_line.hpp"
#include "text/units.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

constexpr std::size_t kTwoColumns = 60;  // a page that is narrower has no room for two columns

cxxopts::Options cxxopts_of(const CommandSpec& spec) {
  cxxopts::Options options("zf-tune", "");
  options.add_options()("h,help", "print this help");
  for (const OptionSpec& option : spec.options) {
    const std::string names =
        option.letter != 0 ? format_text("{},{}", option.letter, option.name) : option.name;
    if (option.value.empty()) {
      options.add_options()(names, option.help);
    } else {
      options.add_options()(names, option.help, cxxopts::value<std::string>(), option.value);
    }
  }
  options.add_options()("positional", "", cxxopts::value<std::vector<std::string>>());
  options.parse_positional("positional");
  return options;
}

std::string full_name(const Arguments& arguments, const std::string& option) {
  return format_text("zf-tune {}: --{}", arguments.command, option);
}

/// Takes the words that the command allows, and a plan that was given without --plan. Throws Error(usage) for
/// a second one and for any other word.
void take_words(const CommandSpec& spec, const std::vector<std::string>& words, Arguments& arguments) {
  for (const std::string& word : words) {
    if (arguments.words.size() < spec.most_words) {
      arguments.words.push_back(word);
      continue;
    }
    const auto plan = reads_plan(spec) ? arguments.text("plan") : std::nullopt;
    if (!reads_plan(spec) || plan) {
      const std::string why = plan ? format_text(": the plan is {} already", *plan) : "";
      throw Error(Exit::usage,
                  format_text("zf-tune {}: \"{}\" is one argument too many{}", spec.name, word, why),
                  see_help(spec));
    }
    arguments.options["plan"] = word;
  }
}

}  // namespace

std::optional<std::string> Arguments::text(const std::string& option) const {
  const auto it = options.find(option);
  return it == options.end() ? std::nullopt : std::optional(it->second);
}

std::optional<int> Arguments::integer(const std::string& option, int low, int high) const {
  const auto given = text(option);
  if (!given) return std::nullopt;
  return parse_integer(*given, low, high, full_name(*this, option));
}

Arguments parse_arguments(const CommandSpec& spec, const std::vector<std::string>& words) {
  Arguments arguments;
  arguments.command = spec.name;
  const std::size_t checked = end_of_options(spec, words);
  const std::size_t end = spec.wraps_command || spec.most_words > 0 ? checked : words.size();
  std::vector<const char*> argv{"zf-tune"};
  for (std::size_t i = 0; i < end; ++i) argv.push_back(words[i].c_str());
  for (std::size_t i = end; i < words.size(); ++i) {
    if (i > end || words[i] != "--") arguments.wrapped.push_back(words[i]);
  }

  std::vector<std::string> plain_words;
  try {
    const auto result = cxxopts_of(spec).parse(static_cast<int>(argv.size()), argv.data());
    arguments.help = result.count("help") > 0;
    for (const OptionSpec& option : spec.options) {
      if (result.count(option.name) == 0) continue;
      arguments.options[option.name] = option.value.empty() ? "true" : result[option.name].as<std::string>();
    }
    if (result.count("positional") > 0) {
      plain_words = result["positional"].as<std::vector<std::string>>();
    }
  } catch (const cxxopts::exceptions::exception&) {
    // end_of_options() has accepted what this version of cxxopts does not.
    throw Error(Exit::usage, format_text("zf-tune {}: the options cannot be read", spec.name),
                see_help(spec));
  }
  const bool no_dashes = end == words.size() || words[end] != "--";
  if (spec.wraps_command && no_dashes && !plain_words.empty() && !arguments.help) {
    const std::string& plan = plain_words.front();
    throw Error(Exit::usage, format_text("zf-tune {}: \"{}\" is a plan, not a command", spec.name, plan),
                format_text("write zf-tune {} --plan {} -- COMMAND", spec.name, shell_quoted(plan)));
  }
  take_words(spec, plain_words, arguments);
  return arguments;
}

std::string help_of(const CommandSpec& spec, std::size_t width) {
  std::string text = format_text("{}\n{}\nOptions:\n", hanging("Usage: zf-tune ", spec.synopsis, width),
                                 hanging("", spec.summary, width));
  // Where the page has no room for a column beside the names, the help stands below them.
  const std::size_t column = width < kTwoColumns ? 10 : 22;
  const auto add = [&](std::string names, const std::string& help) {
    names.insert(0, "  ");
    // Names that are too long for their column get a line of their own.
    if (names.size() + 2 > column) text += std::exchange(names, "") + "\n";
    names.resize(column, ' ');
    text += hanging(names, help, width);
  };
  for (const OptionSpec& option : spec.options) {
    const std::string letter = option.letter != 0 ? format_text("-{}, ", option.letter) : "    ";
    add(format_text("{}--{}{}{}", letter, option.name, option.value.empty() ? "" : " ", option.value),
        option.help);
  }
  add("-h, --help", "print this help");
  return text;
}

std::vector<OptionSpec> machine_options() {
  return {
      {"topology", 0, "FILE|TEXT",
       "use another machine: an hwloc XML file or a synthetic description (default: this machine; e.g. "
       "\"pack:2 [numa] core:8 pu:2\")"},
      {"sysroot", 0, "DIR",
       "use another machine: a folder that holds its /proc and /sys (default: /; e.g. capture)"},
      {"allowed", 0, "LIST",
       "use only these CPUs, given as OS indexes; they are the job's own, also if its CPU quota is smaller "
       "(default: all that are allowed; e.g. 0,4-11)"},
      {"mems", 0, "LIST",
       "use only the memory of these NUMA nodes, which may be HBM or CXL nodes (default: all that are "
       "allowed; e.g. 0)"},
      {"isolated", 0, "",
       "use also the CPUs that the kernel isolates (isolcpus, nohz_full), where it does not move threads "
       "(default: leave them out, unless no others are allowed)"},
  };
}

std::vector<OptionSpec> with_machine_options(std::vector<OptionSpec> specific) {
  for (OptionSpec& option : machine_options()) specific.push_back(std::move(option));
  return specific;
}

std::vector<OptionSpec> with_options_of_this_machine(std::vector<OptionSpec> specific) {
  for (OptionSpec& option : machine_options()) {
    if (option.name == "topology" || option.name == "sysroot")
      option.help = "refused here: nothing can be measured on another machine (default: this machine)";
    specific.push_back(std::move(option));
  }
  return specific;
}

}  // namespace zf
