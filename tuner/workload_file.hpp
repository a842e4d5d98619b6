// A workload file: what is to be trained, as configs/workloads/README.md specifies it.
#pragma once

#include <filesystem>

#include "plan/plan.hpp"

namespace zf {

/// Throws Error(usage) that names the file and the field.
Workload load_workload(const std::filesystem::path& path);

/// The same training with another number of ranks: what a rank moves on the host is shared by more or fewer,
/// what its GPU computes stays.
Workload on_ranks(Workload workload, int ranks);

}  // namespace zf
