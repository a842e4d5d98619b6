// Tells a job that has few cores for its ranks, and who can give it more. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "os/allowed.hpp"
#include "os/environment.hpp"

namespace zf {

/// Returns how to start a job so that its launcher binds it to nothing: "srun --cpu-bind=none".
std::string how_to_unbind(const Environment& environment);

/// Returns how this job gets CPUs that it may not use now, by the option of what keeps them from it: "srun
/// --cpu-bind=none, or more --cpus-per-task for sbatch and srun". Empty if nothing keeps any from it.
std::string how_to_get_cpus(const Environment& environment, const Allowed& allowed);

/// A job that has few cores for its ranks.
struct CoreShortage {
  std::string what;         ///< begins with the ratio: "8 ranks have 2 cores"
  std::string remedy;       ///< who can give more (Allowed::more_cpus), or how many ranks fit
  bool impossible = false;  ///< fewer cores than ranks: there is no plan
};

/// Returns the shortage if there are at most two cores for each rank, or the CPU time of two CPUs; nothing if
/// there are more. Returns nothing for one rank, too, that has all of a small machine. Every command says it
/// in these words.
std::optional<CoreShortage> core_shortage(std::size_t ranks, std::size_t cores, const Allowed& allowed);

/// Returns the shortage on one line: "8 ranks have 12 cores, …; give the job more: …".
std::string in_words(const CoreShortage& shortage);

/// Returns the error of a job with fewer cores than ranks. Precondition: it has.
Error too_few_cores(std::size_t ranks, std::size_t cores, const Allowed& allowed);

}  // namespace zf
