#include "commands/cli.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace zf {
namespace {

CommandSpec wrapper() {
  CommandSpec spec{
      "exec",
      "exec [options] -- COMMAND",
      "Runs a command.",
      {{"plan", 'p', "FILE", "the plan"}, {"force", 'f', "", "go on"}, {"rank", 'r', "N", "which rank"}}};
  spec.wraps_command = true;
  return spec;
}

TEST(Cli, OptionsMayBeWrittenInEveryUsualWay) {
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"--plan", "a.json", "--force"}, {"--plan=a.json", "--force"}, {"-p", "a.json", "--force"}}) {
    const Arguments arguments = parse_arguments(wrapper(), words);
    EXPECT_EQ(arguments.text("plan"), "a.json");
    EXPECT_TRUE(arguments.has("force"));
    EXPECT_FALSE(arguments.has("rank"));
    EXPECT_TRUE(arguments.wrapped.empty());
  }
}

TEST(Cli, AWrappedCommandKeepsItsOwnOptions) {
  const std::vector<std::string> command{"python", "-p", "x", "--force", "--", "y"};
  std::vector<std::string> words{"-p", "a.json", "--"};
  words.insert(words.end(), command.begin(), command.end());
  EXPECT_EQ(parse_arguments(wrapper(), words).wrapped, command);
  words.erase(words.begin() + 2);
  EXPECT_EQ(parse_arguments(wrapper(), words).wrapped, command) << "-- is optional, as with numactl";
  EXPECT_FALSE(parse_arguments(wrapper(), words).has("force"));
}

/// Returns what is said of these words; "" if they are accepted.
std::string complaint(const CommandSpec& spec, const std::vector<std::string>& words) {
  try {
    parse_arguments(spec, words);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    return error.what();
  }
}

TEST(Cli, WrongArgumentsAreNamedWithWhatToDo) {
  const CommandSpec plain{"check",
                          "check [PLAN]",
                          "Checks.",
                          {{"plan", 'p', "FILE", "the plan"},
                           {"rank", 'r', "N", "which rank"},
                           {"whole-node", 'w', "", "no allocation"},
                           {"gpus", 0, "", "GPUs too"}}};
  for (const auto& [words, said] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--bogus"}, "there is no option --bogus; see zf-tune check --help"},
           {{"--bogus=1"}, "there is no option --bogus; see zf-tune check --help"},
           {{"--rnak", "1"}, "there is no option --rnak; did you mean --rank?"},
           {{"--rnak=1"}, "there is no option --rnak; did you mean --rank?"},
           {{"--whole_node"}, "there is no option --whole_node; did you mean --whole-node?"},
           {{"--WHOLE"}, "there is no option --WHOLE; did you mean --whole-node?"},
           {{"---rank", "1"}, "there is no option ---rank; did you mean --rank?"},
           {{"--hlep"}, "there is no option --hlep; did you mean --help?"},
           {{"a.json", "--rnak"}, "there is no option --rnak; did you mean --rank?"},
           {{"-rank", "1"}, "there is no option -rank; did you mean --rank?"},
           {{"-gpus"}, "there is no option -gpus; did you mean --gpus?"},
           {{"-gpu"}, "there is no option -gpu; did you mean --gpus?"},
           {{"--r", "1"}, "there is no option --r; did you mean -r?"},
           {{"--g"}, "there is no option --g; see zf-tune check --help"},
           {{"-x"}, "there is no option -x; see zf-tune check --help"},
           {{"-x=1"}, "there is no option -x; see zf-tune check --help"},
           {{"-wx"}, "there is no option -x in -wx; see zf-tune check --help"},
           {{"-="}, "there is no option -=; see zf-tune check --help"},
           {{"---"}, "there is no option ---; see zf-tune check --help"},
           {{"--=1"}, "there is no option --=1; see zf-tune check --help"},
           {{"--positional", "1"}, "there is no option --positional; see zf-tune check --help"},
           {{"--rank"}, "--rank needs a value; write --rank N"},
           {{"-r"}, "-r needs a value; write -r N"},
           {{"-wr"}, "-r needs a value; write -r N"},
           {{"--rank", "--gpus"}, "--rank needs a value before --gpus; write --rank N"},
           {{"--rank", "--", "1"}, "--rank needs a value before --; write --rank N"},
           {{"--gpus=no"}, "--gpus takes no value; write --gpus, or leave it out"},
           {{"--help=no"}, "--help takes no value; write --help, or leave it out"},
           {{"-r=1"}, "-r=1: the value of -r cannot be read; write a blank before it: -r 1"},
           {{"-r1.5"}, "-r1.5: the value of -r cannot be read; write a blank before it: -r 1.5"},
           {{"a.json", "b.json"},
            "\"b.json\" is one argument too many: the plan is a.json already; see zf-tune check --help"},
           {{"a.json", "--", "--rank"},
            "\"--rank\" is one argument too many: the plan is a.json already; see zf-tune check --help"}}) {
    EXPECT_EQ(complaint(plain, words), "zf-tune check: " + said);
  }
}

TEST(Cli, WhatIsCheckedIsParsedInTheSameWay) {
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"-r1", "-f"}, {"-fr1"}, {"-fr", "1"}, {"-f", "-r", "1"}, {"--rank=1", "--force"}}) {
    const Arguments arguments = parse_arguments(wrapper(), words);
    EXPECT_EQ(arguments.text("rank"), "1");
    EXPECT_TRUE(arguments.has("force"));
  }
  EXPECT_EQ(parse_arguments(wrapper(), {"--rank="}).text("rank"), "");
  EXPECT_EQ(parse_arguments(wrapper(), {"--rank", "-5"}).text("rank"), "-5");
  EXPECT_EQ(parse_arguments(wrapper(), {"--rank", "--5"}).text("rank"), "--5");
}

TEST(Cli, APlanMayStandBeforeTheDashesOfAWrappedCommand) {
  const Arguments arguments =
      parse_arguments(wrapper(), {"-f", "a.json", "--rank", "1", "--", "b.json", "x"});
  EXPECT_EQ(arguments.text("plan"), "a.json");
  EXPECT_EQ(arguments.text("rank"), "1");
  EXPECT_EQ(arguments.wrapped, (std::vector<std::string>{"b.json", "x"}));
  EXPECT_EQ(complaint(wrapper(), {"a.json", "python"}),
            "zf-tune exec: \"a.json\" is a plan, not a command; write zf-tune exec --plan a.json -- COMMAND");
  EXPECT_TRUE(parse_arguments(wrapper(), {"a.json", "--help"}).help);
}

TEST(Cli, AWrappedCommandIsNotChecked) {
  const std::vector<std::string> command{"pyhton", "--rnak", "-x", "--force=1"};
  EXPECT_EQ(parse_arguments(wrapper(), command).wrapped, command);
  EXPECT_EQ(complaint(wrapper(), {"--rnak", "0", "--", "python"}),
            "zf-tune exec: there is no option --rnak; did you mean --rank?");
}

TEST(Cli, IntegersKeepTheirBounds) {
  const Arguments arguments = parse_arguments(wrapper(), {"--rank", "12"});
  EXPECT_EQ(arguments.integer("rank", 0, 12), 12);
  EXPECT_EQ(arguments.integer("other", 0, 12), std::nullopt);
  EXPECT_THROW(arguments.integer("rank", 0, 11), Error);
}

TEST(Cli, HelpShowsEveryOption) {
  const std::string help = help_of(wrapper());
  for (const char* part :
       {"Usage: zf-tune exec", "-p, --plan FILE", "-f, --force", "-r, --rank N", "-h, --help"}) {
    EXPECT_THAT(help, testing::HasSubstr(part));
  }
}

}  // namespace
}  // namespace zf
