// The host memory of a job on this node, at the highest instant of each phase.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fit/fit_job.hpp"
#include "fit/memory_item.hpp"

namespace zf {

/// A phase, for all ranks of this node together.
struct PhaseMemory {
  std::array<std::uint64_t, kEnumNames<FitItem>.size()> items{};  ///< bytes, by FitItem
  std::uint64_t bytes = 0;                                        ///< their sum

  std::uint64_t of(FitItem item) const { return items[static_cast<std::size_t>(item)]; }
  bool operator==(const PhaseMemory&) const = default;
};

struct MemoryForecast {
  std::array<PhaseMemory, kFitPhases> phases;  ///< by FitPhase
  std::uint64_t pinned_bytes = 0;              ///< page-locked, of all ranks
  std::uint64_t shared_memory_bytes = 0;       ///< files in /dev/shm, of all ranks; `phases` have them, too

  const PhaseMemory& at(FitPhase phase) const { return phases[static_cast<std::size_t>(phase)]; }
  /// Returns the phase that needs most; the first of equal ones.
  FitPhase worst() const;
  std::uint64_t peak_bytes() const { return at(worst()).bytes; }
  bool operator==(const MemoryForecast&) const = default;
};

/// Returns the forecast of a job. Precondition: there is such a job (why_no_such_job()). Pure.
MemoryForecast forecast_of(const FitJob& job);

/// Returns what of a job's forecast was read in the framework's source and never compared with a real job on
/// CPUs: one sentence; nothing if all of it was compared. Pure.
std::optional<std::string> what_is_from_source(const FitJob& job);

/// Returns what jobs have in common that differ in their size alone: "native 2 wait bf16:fp32", with ":ranks"
/// if there are several on one node, ":frozen" if some parameters are, and ":sums" for fp32-accumulation.
/// Pure.
std::string kind_of(const FitJob& job);

/// Returns the kinds that tests/frameworks/memory_peaks.py ran: on CPUs, of one node, with pageable memory,
/// and models that were made whole. A test compares the list with the runs. Pure.
std::vector<std::string> measured_kinds();

}  // namespace zf
