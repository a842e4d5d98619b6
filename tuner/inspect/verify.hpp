// A running job held against its plan. Pure.
#pragma once

#include <string>
#include <vector>

#include "inspect/job_processes.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Memory on other nodes than the plan's is drift from here on: below, it is a few pages that the loader or
/// another thread touched first.
inline constexpr double kStrayMemoryShare = 0.01;
inline constexpr std::uint64_t kStrayMemoryBytes = std::uint64_t{16} << 20;

/// One thing that is not as the plan has it.
struct Drift {
  int rank = 0;
  int pid = 0;
  int tid = 0;       ///< 0: the process as a whole
  std::string name;  ///< the thread's, or the process's
  std::string what;  ///< "may run on 0-63, outside 0-3"
};

/// Every thread may run on nothing but its side's CPUs; every CPU of a running optimizer has a thread of its
/// own, unless the rank is shared; memory lies on the rank's nodes. Throws Error(usage) for a rank that the
/// plan lacks.
std::vector<Drift> drift_of(const Plan& plan, const std::vector<JobProcess>& job);

/// For a person: each process, then each drift; ended by a newline.
std::string verification_text(const std::vector<JobProcess>& job, const std::vector<Drift>& drifts);

/// {"processes": [{"rank", "side": "trainer" | "optimizer", "pid", "name", "threads", "cpus",
///   "memory_bytes": {"0": …} or null}], "drift": [{"rank", "pid", "tid" or null, "name", "what"}]}
std::string verification_json(const std::vector<JobProcess>& job, const std::vector<Drift>& drifts);

}  // namespace zf
