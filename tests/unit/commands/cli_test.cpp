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
      {{"plan", 'p', "FILE", "the plan"}, {"force", 0, "", "go on"}, {"rank", 'r', "N", "which rank"}}};
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

TEST(Cli, WrongArgumentsAreNamedAndPointToTheHelp) {
  const CommandSpec plain{"check", "check [PLAN]", "Checks.", {{"rank", 'r', "N", "which rank"}}, 1};
  for (const auto& [words, part] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--bogus"}, "bogus"}, {{"--rank"}, "rank"}, {{"a.json", "b.json"}, "b.json"}}) {
    try {
      parse_arguments(plain, words);
      ADD_FAILURE() << part << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::usage);
      EXPECT_THAT(error.what(), testing::HasSubstr(part));
      EXPECT_THAT(error.what(), testing::HasSubstr("zf-tune check --help"));
    }
  }
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
       {"Usage: zf-tune exec", "-p, --plan FILE", "    --force", "-r, --rank N", "-h, --help"}) {
    EXPECT_THAT(help, testing::HasSubstr(part));
  }
}

}  // namespace
}  // namespace zf
