// Measures a split on this machine: the production pool and kernel, every rank at the same time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/isa.hpp"
#include "tuner/meter.hpp"

namespace zf {

class MachineMeter : public Meter {
 public:
  /// Throws Error(usage) when ZF_ISA asks for what this CPU lacks.
  MachineMeter(std::uint64_t elements_per_rank, double scale);

  std::vector<SplitSample> measure(const Split& split, int samples, Nanoseconds deadline_ns) override;
  std::uint64_t elements_per_rank() const override { return elements_; }
  double scale() const override { return scale_; }
  std::string isa() const override;

 private:
  std::uint64_t elements_;
  double scale_;
  Isa isa_;
};

/// How much to measure over, and why it is not what was asked for (empty: it is).
struct WorkingSetSize {
  std::uint64_t elements_per_rank = 0;
  std::string warning;
};

/// Elements (of WorkingSet::kBytesPerElement) per rank: `params` over the ranks where given, else just over
/// 1 GiB or four times the last-level caches for all ranks together, whichever is more; never more than
/// half of `available_bytes`. Warns where memory cut it down or where caches would hold it. Pure.
WorkingSetSize working_set_size(std::uint64_t params, int ranks, std::uint64_t cache_bytes,
                                std::uint64_t available_bytes);

}  // namespace zf
