// Tunes one node of each class that has no plan, through the command that starts a process on a node.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "survey/node_class.hpp"

namespace zf {

/// One class's plan that is to be made, and the node that makes it.
struct ClassTuning {
  std::string node;
  /// CLASS.json; CLASS+GPUS.json if the class has GPUs in several places. The plan must be of what it names.
  std::filesystem::path plan;
  std::vector<std::string> command;  ///< starts the tuning

  /// The plan that the node writes, before it is checked and renamed.
  std::filesystem::path fresh() const { return beside(".new"); }
  /// Exists while the class is tuned or may be, and prevents a second start.
  std::filesystem::path mark() const { return beside(".tuning"); }
  std::filesystem::path log() const { return plan.parent_path() / (plan.stem().string() + ".log"); }

 private:
  std::filesystem::path beside(const char* suffix) const {
    return plan.parent_path() / ("." + plan.filename().string() + suffix);
  }
};

/// Returns the words of `command`, which blanks separate, with {node} and {command} replaced; no shell reads
/// them. {command} is one word: zf-tune tune with these options, quoted for the shell of the node. Throws
/// Error(usage) if {node} or {command} is missing. Pure.
std::vector<std::string> words_of(const std::string& command, const std::string& node,
                                  const std::vector<std::string>& tune);

/// Returns what is to be tuned: classes without a plan in the folder. A class with GPUs in several places has
/// a plan for each. Classes in which every node is odd are left out. Throws Error(usage) as words_of() does,
/// and if a plan of the folder cannot be read.
std::vector<ClassTuning> tunings_of(const std::vector<NodeClass>& classes,
                                    const std::filesystem::path& folder, const std::string& command,
                                    const std::vector<std::string>& options);

/// Runs the tunings, `at_once` at a time, each in a process of its own, and prints a line for each on stdout.
/// The output of the commands goes to the logs. Leaves a class alone that another run has marked, even if
/// that run was killed: its command may still run, and the next run takes the plan that this command makes.
/// Returns whether every class has its plan now. Once `stop` returns true, ends the commands and returns.
/// Call it before threads are started.
bool tune_classes(const std::vector<ClassTuning>& tunings, int at_once, const std::function<bool()>& stop);

}  // namespace zf
