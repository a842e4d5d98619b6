// Workload files: what a job is, written by a person or by zf-tune record. docs/workload.md has
// the fields.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "plan/workload.hpp"

namespace zf {

/// What was seen of a job while it was recorded: medians over its updates, of the slowest rank. Nothing
/// computes with it but the factor of the step; the rest is to be compared with a forecast.
struct Recorded {
  int updates = 0;
  int threads = 0;              ///< OpenMP threads of a rank
  Nanoseconds period_ns = 0;    ///< from one optimizer step to the next
  Nanoseconds training_ns = 0;  ///< a training step, with no optimizer beside it where that could be had
  Nanoseconds forward_ns = 0;   ///< the part of it before backward: data, zero_grad, forward
  Nanoseconds backward_ns = 0;  ///< its backward
  std::optional<Nanoseconds> step_ns;  ///< the optimizer step; absent: it runs where it cannot be seen
  std::optional<Nanoseconds> backward_one_thread_ns;   ///< a backward with one thread
  std::optional<Nanoseconds> backward_all_threads_ns;  ///< and with all
  bool operator==(const Recorded&) const = default;
};

struct WorkloadFile {
  Workload workload;
  std::vector<std::string> estimates;  ///< the fields of it that were not measured, as "training.gpu_ns"
  std::optional<Recorded> recorded;
  std::string source;
};

/// Reads a workload file. Throws Error(usage) that names the file and the field.
WorkloadFile load_workload_file(const std::filesystem::path& path);
Workload load_workload(const std::filesystem::path& path);

/// Returns the text of a workload file. load_workload_file() reads it back.
std::string print_workload_file(const WorkloadFile& file);

/// Joins the files that the ranks of one job wrote, each about itself. Parameters add up, and of each time
/// the slowest rank's counts. Throws Error(runtime_error) if the ranks do not agree in mode, framework or
/// update interval. Precondition: there is a rank.
WorkloadFile joined_ranks(const std::vector<WorkloadFile>& ranks);

}  // namespace zf
