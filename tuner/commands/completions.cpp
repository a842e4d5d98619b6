#include "commands/completions.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/format.hpp"
#include "commands/option_words.hpp"

namespace zf {
namespace {

constexpr const char* kFiles = "/\n";

/// Returns the line of a word, or "" if it does not begin with what was typed.
std::string line_of(const std::string& word, std::string_view meaning, std::string_view typed) {
  return word.starts_with(typed) ? format_text("{}\t{}\n", word, meaning) : "";
}

/// Returns the text up to its first period, colon or semicolon, without what stands in brackets.
std::string first_clause(std::string text) {
  for (std::size_t at = text.find(" ("); at != std::string::npos; at = text.find(" (", at))
    text.erase(at, text.find(')', at) - at + 1);
  std::size_t end = text.ends_with('.') ? text.size() - 1 : text.size();
  for (const char* const mark : {". ", ": ", "; "}) end = std::min(end, text.find(mark));
  return text.substr(0, end);
}

std::string command_lines(const std::vector<CommandSpec>& commands, std::string_view typed) {
  std::string lines;
  for (const CommandSpec& command : commands)
    lines += line_of(command.name, first_clause(command.summary), typed);
  return lines + line_of("help", "print the options of a command", typed);
}

std::string option_lines(const CommandSpec& spec, std::string_view typed) {
  std::string lines;
  const auto add = [&](const OptionSpec& option) {
    const std::string meaning = first_clause(option.help);
    lines += line_of("--" + option.name, meaning, typed);
    if (option.letter != 0) lines += line_of(format_text("-{}", option.letter), meaning, typed);
  };
  for (const OptionSpec& option : spec.options) add(option);
  add(*option_named(spec, "help", 0));
  return lines;
}

/// Returns the lines of an option's values. `lead` stands before each: "--mode=" or "".
std::string value_lines(const OptionSpec& option, std::string_view lead, std::string_view typed) {
  constexpr std::array kPaths{"FILE", "DIR", "FOLDER"};
  const auto is_named = [&](const char* path) { return option.value.find(path) != std::string::npos; };
  if (std::any_of(kPaths.begin(), kPaths.end(), is_named)) return kFiles;
  std::string lines;
  std::istringstream values(option.values);
  for (std::string value; std::getline(values >> std::ws, value, ',');)
    lines += line_of(format_text("{}{}", lead, value), first_clause(option.help), typed);
  return lines;
}

/// Returns the option that the word names if its value is the next word; otherwise null.
const OptionSpec* option_before_value(const CommandSpec& spec, std::string_view word) {
  const OptionSpec* const option =
      word.starts_with("--") ? option_named(spec, word.substr(2), 0) : option_named(spec, "", word.back());
  return option != nullptr && !option->value.empty() ? option : nullptr;
}

/// Takes --plan and its value from before the command. Returns whether the value is what is being typed.
bool take_leading_plan(std::vector<std::string>& words) {
  if (words.empty()) return false;
  const bool one_word = words.front().starts_with("--plan=");
  if (!one_word && words.front() != "--plan" && words.front() != "-p") return false;
  words.erase(words.begin());
  if (one_word) return false;
  if (words.empty()) return true;
  words.erase(words.begin());
  return false;
}

}  // namespace

std::string completions(const std::vector<CommandSpec>& commands, std::vector<std::string> words) {
  if (words.empty() || words.back() == "=") words.emplace_back();
  std::erase(words, "=");  // bash divides --mode=wait into three words
  const std::string typed = words.back();
  words.pop_back();
  if (take_leading_plan(words)) return kFiles;
  if ((words.empty() && !typed.starts_with('-')) || words == std::vector<std::string>{"help"})
    return command_lines(commands, typed);

  std::string name = "tune";  // the command if none is named
  if (!words.empty() && !words.front().starts_with('-')) {
    name = words.front();
    words.erase(words.begin());
  }
  const auto is_named = [&](const CommandSpec& command) { return command.name == name; };
  const auto spec = std::find_if(commands.begin(), commands.end(), is_named);
  if (spec == commands.end()) return "";

  const OptionSpec* unfinished = nullptr;
  for (const std::string& word : words) {
    if (std::exchange(unfinished, nullptr) != nullptr) continue;
    if (word == "--" || begins_wrapped_command(*spec, word)) return kFiles;
    if (word.starts_with('-')) unfinished = option_before_value(*spec, word);
  }
  if (unfinished != nullptr) return value_lines(*unfinished, "", typed);
  if (const std::size_t equals = typed.find('='); typed.starts_with("--") && equals != std::string::npos) {
    const OptionSpec* const option = option_before_value(*spec, typed.substr(0, equals));
    return option == nullptr ? "" : value_lines(*option, typed.substr(0, equals + 1), typed);
  }
  if (typed.starts_with('-')) return option_lines(*spec, typed);
  return spec->wraps_command || spec->most_words > 0 || reads_plan(*spec) ? kFiles : "";
}

}  // namespace zf
