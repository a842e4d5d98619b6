#include "survey/survey.hpp"

#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <utility>

#include "base/exit_after_signal.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/interrupt.hpp"
#include "commands/option_words.hpp"
#include "commands/output.hpp"
#include "commands/results.hpp"
#include "commands/shared_arguments.hpp"
#include "commands/terminal.hpp"
#include "measure/node_bandwidth.hpp"
#include "os/file.hpp"
#include "os/host_name.hpp"
#include "os/standard_streams.hpp"
#include "planning/assemble.hpp"
#include "survey/node_features.hpp"
#include "survey/node_names.hpp"
#include "survey/tune_classes.hpp"

namespace zf {
namespace {

CommandSpec survey_spec() {
  CommandSpec spec = {
      "survey", "survey {add DIR | DIR | check FILE | forget DIR LIST} [options] [-- OPTIONS OF tune]",
      "Says which nodes of a cluster are alike and which are odd, and tunes one node of each class. add, run "
      "on "
      "each node by the cluster's own engine, writes DIR/NODE.json; survey DIR reads these. check compares "
      "this "
      "node with the JSON of a survey. forget removes nodes. Exits with 3 if something is odd, silent, too "
      "old "
      "or left out.",
      with_machine_options({
          {"name", 0, "NODE",
           "this node's name (default: $SLURMD_NODENAME, else the host's name; e.g. gpu001)"},
          {"no-bandwidth", 0, "",
           "do not measure this node's bandwidth (default: for up to 5 s, if this process may use the whole "
           "node and it is idle)"},
          {"nodes", 0, "LIST|-",
           "the nodes that should answer; - reads them from standard input, a line each, as sinfo -h -N -o "
           "'%N "
           "%f' prints (default: those that did; e.g. gpu[001-604,606])"},
          {"older-than", 0, "DAYS", "name nodes with older answers (default: no answer is too old; e.g. 30)"},
          {"accept", 0, "LIST",
           "small groups that are classes: CLASS or CLASS+GPUS, of each 8 digits or more (default: none; "
           "e.g. "
           "94ab4283)"},
          {"at-least", 0, "N",
           "nodes of one kind that are a class; fewer are odd nodes of another one (default: 1 in 100 of "
           "all, "
           "but 4 or more; e.g. 2)"},
          {"no-gpus", 0, "", "do not compare where nodes have their GPUs (default: compare them)"},
          {"features", 0, "",
           "print the scontrol lines that give nodes their class as a feature; needs --nodes - with the "
           "features that they have (default: print the survey)"},
          {"tune", 0, "COMMAND",
           "tune a node of each class that has no plan. {node} stands for its name and {command} for what to "
           "run "
           "there, as one word; no shell reads COMMAND, which must wait for the end (default: tune nothing; "
           "e.g. 'ssh {node} {command}')"},
          {"plans", 0, "FOLDER",
           "where --tune puts CLASS.json, or CLASS+GPUS.json if the class has GPUs in several places; all "
           "nodes "
           "must see it (e.g. /shared/zf-tune/plans)"},
          {"at-once", 0, "N", "how many classes are tuned at the same time (default: 8; e.g. 1)"},
          {"report", 0, "FILE",
           "also write the survey as an HTML page, - for standard output (e.g. nodes.html)"},
          format_option(),
      })};
  spec.most_words = 3;
  return spec;
}

[[noreturn]] void refuse(std::string_view what, std::string_view next = "see zf-tune survey --help") {
  throw Error(Exit::usage, format_text("zf-tune survey: {}", what), next);
}

/// Returns the words behind the first. Throws Error(usage) unless there are so many.
std::vector<std::string> words_behind(const Arguments& arguments, std::size_t count, std::string_view names) {
  if (arguments.words.size() != count + 1) refuse(format_text("{} needs {}", arguments.words.front(), names));
  return {arguments.words.begin() + 1, arguments.words.end()};
}

std::string name_of_this_node(const Arguments& arguments) {
  std::string name = arguments.text("name").value_or(
      Environment::of_this_process().get("SLURMD_NODENAME").value_or(host_name()));
  if (is_node_name(name)) return name;
  refuse(format_text("\"{}\" is no name of a node", one_line(name)), "give one with --name");
}

/// Measures the bandwidth of a whole, idle node, or notes why not.
void add_bandwidth(const Machine& machine, NodeRecord& record) {
  constexpr auto kDeadline = std::chrono::milliseconds(4500);  // with the reading of the machine, below 5 s
  const auto why_not = why_not_whole_and_idle(machine);
  if (why_not) record.not_measured = *why_not;
  if (why_not) return;
  const auto measured = measure_node_bandwidth(machine, kDeadline);
  if (!measured) record.not_measured = "it was not done within 5 s";
  if (!measured) return;
  record.bytes_per_s = measured->all;
  for (const NodeBandwidth::OfNode& of_node : measured->nodes) {
    for (RecordedMemory& memory : record.numa) {
      if (memory.node == of_node.node) memory.bytes_per_s = of_node.bytes_per_s;
    }
  }
}

NodeRecord record_of_this_node(const Arguments& arguments) {
  const std::string name = name_of_this_node(arguments);
  MachineSource source = machine_source(arguments);
  source.with_io = false;  // PCI alone says where GPUs are, and drivers may hang
  source.with_speeds = false;
  source.keep_isolated = true;
  const Machine machine = read_machine(source);
  NodeRecord record = record_of(machine.topology, name);
  const Provenance made = provenance_of("");
  record.at = made.at;
  record.by = made.by;
  record.kernel = one_line(source.sysroot.read("/proc/sys/kernel/osrelease").value_or(""));
  while (record.kernel.ends_with(' ')) record.kernel.pop_back();
  if (arguments.has("no-bandwidth")) {
    record.not_measured = "--no-bandwidth was given";
  } else {
    add_bandwidth(machine, record);
  }
  return record;
}

Exit add_node(const Arguments& arguments) {
  const std::string folder = words_behind(arguments, 1, "a folder").front();
  if (std::error_code ignored;
      std::filesystem::exists(folder, ignored) && !std::filesystem::is_directory(folder, ignored))
    throw Error(Exit::usage, format_text("zf-tune survey add: {} is not a folder", folder),
                "name a folder; it is made if it is absent");
  const NodeRecord record = record_of_this_node(arguments);
  write_record(record, folder);
  print_result_line(format_text("{}: class {}, bandwidth {}", record.name, record.machine.fingerprint,
                                record.bytes_per_s ? format_text("{:.1f} GB/s", *record.bytes_per_s / 1e9)
                                                   : "not measured: " + record.not_measured));
  return Exit::done;
}

Exit check_node(const Arguments& arguments) {
  const std::string file = words_behind(arguments, 1, "the JSON of a survey").front();
  const std::vector<NodeClass> classes = classes_in_json(read_text_file(file), file);
  const NodeRecord record = record_of_this_node(arguments);
  if (!is_kind_known(record, classes)) {
    print_result_line(format_text("{}: not compared: no class of {} has its CPU, {}", record.name, file,
                                  record.machine.model));
    return Exit::done;
  }
  const auto odd = odd_node(record, classes, {.gpus = !arguments.has("no-gpus"), .fast = false});
  if (odd) print_result_line(format_text("{}: {}", record.name, in_words(*odd)));
  if (!record.not_measured.empty())
    print_result_line(
        format_text("{}: cannot tell whether it is slow: {}", record.name, record.not_measured));
  if (!odd)
    print_result_line(
        format_text("{}: is as its class, {}", record.name, short_name(record.machine.fingerprint)));
  return odd ? Exit::stale_plan : Exit::done;
}

Exit forget_nodes(const Arguments& arguments) {
  const auto words = words_behind(arguments, 2, "a folder and nodes");
  for (const std::string& name : unfolded_names(words[1], "zf-tune survey forget")) {
    print_result_line(
        format_text("{}: {}", name, forget_node(name, words[0]) ? "forgotten" : "was not in " + words[0]));
  }
  return Exit::done;
}

std::vector<std::string> list_argument(const Arguments& arguments, const std::string& option) {
  std::string list = arguments.text(option).value_or("");
  std::replace(list.begin(), list.end(), ',', ' ');
  std::istringstream words(list);
  return {std::istream_iterator<std::string>(words), {}};
}

/// Returns standard input, which --nodes - names.
std::string text_of_stdin() {
  constexpr std::size_t kMostBytes = std::size_t{16} << 20;
  std::string text;
  std::array<char, 65536> chunk;
  for (ssize_t got = 1; got > 0 && text.size() < kMostBytes;) {
    got = checked(::read(STDIN_FILENO, chunk.data(), chunk.size()), "reading the nodes of --nodes -");
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  return text;
}

/// Returns the UTC time so many days ago.
std::string days_ago(int days) {
  const std::time_t then = std::time(nullptr) - std::time_t{86400} * days;
  std::tm utc = {};
  gmtime_r(&then, &utc);
  std::array<char, 32> text;
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

SurveyRequest request_of(const Arguments& arguments, const std::optional<NodeFeatures>& present) {
  SurveyRequest request;
  for (const std::string& name : list_argument(arguments, "accept")) {
    if (name.size() < 8 || name.find_first_not_of("0123456789abcdef+") != std::string::npos)
      refuse(format_text("--accept: \"{}\" is no class", one_line(name)), "give 8 digits of one or more");
    request.rules.accepted.push_back(name);
  }
  if (const auto least = arguments.integer("at-least", 1, 100'000))
    request.rules.at_least = static_cast<std::size_t>(*least);
  if (const auto days = arguments.integer("older-than", 1, 36'500)) request.oldest = days_ago(*days);
  request.with_gpus = !arguments.has("no-gpus");
  if (present) {
    request.expected.emplace();
    for (const auto& entry : *present) request.expected->push_back(entry.first);
  } else if (const auto list = arguments.text("nodes")) {
    request.expected = unfolded_names(*list, "zf-tune survey: --nodes");
  }
  return request;
}

Exit tune_what_has_no_plan(const Arguments& arguments, const Survey& survey) {
  const std::string plans = *arguments.text("plans");
  std::error_code error;
  std::filesystem::create_directory(plans, error);
  const auto tunings = tunings_of(survey.classes, plans, *arguments.text("tune"), arguments.wrapped);
  for (const NodeClass& one : survey.classes) {
    if (one.typical.empty())
      print_result_line(
          format_text("{}: not tuned: each of its nodes is odd", name_of(one.machine, one.gpus)));
  }
  if (tunings.empty()) {
    const bool all_can = std::none_of(survey.classes.begin(), survey.classes.end(),
                                      [](const NodeClass& one) { return one.typical.empty(); });
    if (!survey.classes.empty() && all_can) print_result_line("every class has a plan");
    return Exit::done;
  }
  flush_stdout();  // the children write, too
  const InterruptWatch interrupt;
  const bool all = tune_classes(tunings, arguments.integer("at-once", 1, 1000).value_or(8),
                                [&] { return interrupt.signal() != 0; });
  if (interrupt.signal() != 0) return exit_after_signal(interrupt.signal());
  return all ? Exit::done : Exit::runtime_error;
}

/// Throws Error(usage) for options that need each other.
void need_consistent(const Arguments& arguments) {
  if (arguments.has("tune") != arguments.has("plans"))
    refuse(arguments.has("tune") ? "--tune needs --plans" : "--plans does nothing without --tune");
  if (arguments.has("tune") &&
      (arguments.has("features") || arguments.text("format").value_or("text") != "text" ||
       arguments.text("report") == "-"))
    refuse("--tune says on standard output how far it is, where a program would read something else",
           "tune first, then run zf-tune survey DIR again");
  if (!arguments.wrapped.empty() && !arguments.has("tune")) refuse("what follows -- are options of --tune");
  if (arguments.has("features") && arguments.text("nodes") != "-") {
    refuse("--features needs the features that nodes have: scontrol replaces all of them",
           "sinfo -h -N -o '%N %f' | zf-tune survey DIR --features --nodes -");
  }
}

Exit survey_folder(const Arguments& arguments) {
  if (arguments.words.size() > 1)
    refuse(format_text("\"{}\" is one argument too many", one_line(arguments.words[1])));
  need_consistent(arguments);
  const std::string& folder = arguments.words.front();
  const auto report = output_beside("", arguments, "report");
  const Format format = format_argument(arguments);
  std::optional<NodeFeatures> present;
  if (arguments.text("nodes") == "-")
    present = parse_node_features(text_of_stdin(), "zf-tune survey: --nodes -");
  if (present && present->empty())
    refuse("--nodes -: standard input names no node", "look at what the command before it printed");
  const Survey survey = survey_of(read_node_folder(folder), request_of(arguments, present));
  if (survey.nodes == 0 && survey.is_well()) {
    throw Error(Exit::usage, format_text("{}: no node has answered", folder),
                "run zf-tune survey add on each node, with this folder");
  }
  if (report) report->write(survey_page(survey));
  if (arguments.has("features")) {
    print_stdout_text(feature_lines(survey, *present));
  } else if (!(report && report->is_stdout())) {
    print_stdout_text(format == Format::json ? survey_json(survey)
                                             : survey_text(survey, terminal_columns(STDOUT_FILENO)));
  }
  if (arguments.has("tune")) {
    const Exit tuned = tune_what_has_no_plan(arguments, survey);
    if (tuned != Exit::done) return tuned;
  }
  return survey.is_well() ? Exit::done : Exit::stale_plan;
}

Exit survey_run(const Arguments& arguments) {
  if (arguments.words.empty()) refuse("no folder is named");
  const std::string& first = arguments.words.front();
  if (first == "add") return add_node(arguments);
  if (first == "check") return check_node(arguments);
  if (first == "forget") return forget_nodes(arguments);
  return survey_folder(arguments);
}

}  // namespace

Command survey_command() { return {survey_spec(), survey_run}; }

}  // namespace zf
