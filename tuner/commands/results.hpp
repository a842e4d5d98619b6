// Prints what a command found out.
#pragma once

#include <string_view>

#include "commands/cli.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Prints a text to stdout as one line (one_line()), for people and for programs. A terminal gets it broken
/// between words.
void print_result_line(std::string_view text);

/// Prints the results of a command that writes a file: to stdout, or to stderr if stdout gets the file
/// ("-o -").
class Results {
 public:
  /// `stdout_is_taken`: it gets the file.
  explicit Results(bool stdout_is_taken);

  /// Returns the descriptor of the stream.
  int stream() const { return stream_; }

  void print(std::string_view text) const;
  /// Prints the lines of a text, broken at the width of the stream.
  void print_wrapped(std::string_view text, const Arguments& arguments) const;
  /// Prints explain() at the width of the stream. Separates it by an empty line from notes before it if both
  /// are on one terminal or in one file.
  void explain(const Plan& plan, const Arguments& arguments) const;

 private:
  int stream_;
};

}  // namespace zf
