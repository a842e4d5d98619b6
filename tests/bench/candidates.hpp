// What the kernel's benchmarks share: ways to do a step that take turns, and arrays for them.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/stagger.hpp"
#include "engine/pool.hpp"

namespace zf {

/// One way to do a step. Its ratios are relative to the candidate named in `against`.
struct Candidate {
  std::string name;
  std::string against;
  double bytes_per_param;
  std::function<void(std::size_t member)> work;
  std::vector<double> ns = {};  ///< one sample per round
};

/// An output or gradient array besides the four of the working set. The thread that fills it touches it
/// first. `order` is its place after the four, from 0, for the stagger.
class Buffer {
 public:
  Buffer(std::size_t bytes, std::size_t order)
      : bytes_(bytes + kHugePageBytes + (4 + order) * kStaggerBytes) {
    at_ = checked(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                  format_text("cannot map {} bytes for an output", bytes), "ask for fewer --params");
    ::madvise(at_, bytes_, MADV_HUGEPAGE);
    const std::size_t to_huge_page = -reinterpret_cast<std::uintptr_t>(at_) % kHugePageBytes;
    begin_ = static_cast<char*>(at_) + to_huge_page + (4 + order) * kStaggerBytes;
  }
  ~Buffer() { ::munmap(at_, bytes_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(begin_);
  }

 private:
  static constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
  std::size_t bytes_;
  void* at_;
  char* begin_;
};

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Returns the candidate's time divided by that of the other one, round by round.
inline std::vector<double> ratios(const Candidate& one, const Candidate& other) {
  std::vector<double> result;
  for (std::size_t i = 0; i < one.ns.size(); ++i) result.push_back(one.ns[i] / other.ns[i]);
  return result;
}

inline void measure(Pool& pool, std::vector<Candidate>& candidates, std::size_t rounds) {
  for (std::size_t round = 0; round < rounds + 1; ++round) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      Candidate& candidate = candidates[(i + round) % candidates.size()];
      const Nanoseconds begin = now_ns();
      pool.run(candidate.work);
      const auto ns = static_cast<double>(now_ns() - begin);
      if (round > 0) candidate.ns.push_back(ns);  // round 0 warms up
    }
  }
}

/// Returns the ratios of a candidate's rounds to those of the candidate that it is compared with.
inline std::vector<double> ratios_of(const Candidate& candidate, const std::vector<Candidate>& candidates) {
  const auto other = std::find_if(candidates.begin(), candidates.end(),
                                  [&](const Candidate& c) { return c.name == candidate.against; });
  return ratios(candidate, *other);
}

inline double gb_per_s(std::size_t params, const Candidate& candidate) {
  return candidate.bytes_per_param * static_cast<double>(params) / median(candidate.ns);
}

}  // namespace zf
