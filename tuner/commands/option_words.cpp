#include "commands/option_words.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "base/format.hpp"
#include "text/nearest.hpp"

namespace zf {
namespace {

bool is_option(std::string_view word) { return word.size() > 1 && word.starts_with('-'); }

class OptionWords {
 public:
  OptionWords(const CommandSpec& spec, const std::vector<std::string>& words) : spec_(spec), words_(words) {}

  /// Checks the option at `at`. Returns how many words it has: 2 if the next word is its value.
  std::size_t check(std::size_t at) const {
    const std::string_view word = words_[at];
    return word.starts_with("--") ? check_name(word, at) : check_letters(word, at);
  }

 private:
  /// Checks --name, --name=value and --name value.
  std::size_t check_name(std::string_view word, std::size_t at) const {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string_view name = word.substr(2, equals - 2);
    const OptionSpec* const option = option_named(spec_, name, 0);
    if (option == nullptr) refuse_unknown(name.empty() ? word : word.substr(0, equals));
    if (equals == word.size()) return option->value.empty() ? 1 : check_value(word, *option, at);
    if (option->value.empty()) {
      refuse(format_text("--{} takes no value", name), format_text("write --{}, or leave it out", name));
    }
    return 1;
  }

  /// Checks -q, -o value, -ovalue, and letters together: -qo value.
  std::size_t check_letters(std::string_view word, std::size_t at) const {
    // No file, count or time is called so: a dash is missing.
    if (word.size() > 2 && option_named(spec_, word.substr(1), 0) != nullptr) refuse_unknown(word);
    for (std::size_t i = 1; i < word.size(); ++i) {
      const OptionSpec* const option = option_named(spec_, "", word[i]);
      const std::string letter = format_text("-{}", word[i]);
      if (option == nullptr && i > 1)
        refuse(format_text("there is no option {} in {}", letter, word), see_help(spec_));
      if (option == nullptr) refuse_unknown(word[1] == '=' ? word : word.substr(0, word.find('=')));
      if (option->value.empty()) continue;
      if (i + 1 == word.size()) return check_value(letter, *option, at);
      const std::string_view value = word.substr(i + 1);
      // cxxopts takes letters and digits only, if a value stands right behind its letter.
      if (std::all_of(value.begin(), value.end(), is_letter_or_digit)) return 1;
      refuse(format_text("{}: the value of {} cannot be read", word, letter),
             format_text("write a blank before it: {} {}", letter,
                         value.substr(value.starts_with('=') ? 1 : 0)));
    }
    return 1;
  }

  /// Checks that the value of `typed` follows in a word of its own.
  std::size_t check_value(std::string_view typed, const OptionSpec& option, std::size_t at) const {
    const std::string what = format_text("{} needs a value", typed);
    const std::string next = format_text("write {} {}", typed, option.value);
    if (at + 1 == words_.size()) refuse(what, next);
    const std::string& value = words_[at + 1];
    const bool is_name =
        value.starts_with("--") && option_named(spec_, std::string_view(value).substr(2), 0) != nullptr;
    if (is_name || value == "--") refuse(format_text("{} before {}", what, value), next);
    return 2;
  }

  [[noreturn]] void refuse_unknown(std::string_view typed) const {
    std::vector<std::string> names{"help"};
    for (const OptionSpec& option : spec_.options) names.push_back(option.name);
    const std::string_view name = typed.substr(std::min(typed.find_first_not_of('-'), typed.size()));
    const std::string what = format_text("there is no option {}", typed);
    if (name.size() == 1) {  // one letter says too little of a name
      const bool is_letter = option_named(spec_, "", name.front()) != nullptr;
      refuse(what, is_letter ? format_text("did you mean -{}?", name) : see_help(spec_));
    }
    const auto meant = nearest(name, names);
    refuse(what, meant ? format_text("did you mean --{}?", *meant) : see_help(spec_));
  }

  [[noreturn]] void refuse(std::string_view what, std::string_view next) const {
    throw Error(Exit::usage, format_text("zf-tune {}: {}", spec_.name, what), next);
  }

  static bool is_letter_or_digit(char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  }

  const CommandSpec& spec_;
  const std::vector<std::string>& words_;
};

}  // namespace

const OptionSpec* option_named(const CommandSpec& spec, std::string_view name, char letter) {
  static const OptionSpec help{"help", 'h', "", "print this help"};
  const auto is_it = [&](const OptionSpec& option) {
    return letter != 0 ? option.letter == letter : option.name == name;
  };
  if (is_it(help)) return &help;
  const auto found = std::find_if(spec.options.begin(), spec.options.end(), is_it);
  return found == spec.options.end() ? nullptr : &*found;
}

bool reads_plan(const CommandSpec& spec) { return option_named(spec, "plan", 0) != nullptr; }

bool begins_wrapped_command(const CommandSpec& spec, std::string_view word) {
  return spec.wraps_command && !is_option(word) && !(reads_plan(spec) && word.ends_with(".json"));
}

std::string see_help(const CommandSpec& spec) { return format_text("see zf-tune {} --help", spec.name); }

std::size_t end_of_options(const CommandSpec& spec, const std::vector<std::string>& words) {
  const OptionWords options(spec, words);
  std::size_t at = 0;
  while (at < words.size() && words[at] != "--") {
    if (begins_wrapped_command(spec, words[at])) break;
    at += is_option(words[at]) ? options.check(at) : 1;
  }
  return at;
}

}  // namespace zf
