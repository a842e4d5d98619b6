#include "os/affinity.hpp"

#include <fmt/core.h>
#include <sched.h>

#include <cassert>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/cpu_list.hpp"
#include "base/error.hpp"

namespace zf {
namespace {

/// A kernel mask for CPUs 0 … bits-1. The fixed cpu_set_t ends at 1024 CPUs, and there are larger machines.
class Mask {
 public:
  explicit Mask(int bits)
      : bits_(bits), bytes_(CPU_ALLOC_SIZE(bits)), set_(CPU_ALLOC(static_cast<std::size_t>(bits))) {
    if (!set_) throw_errno(ENOMEM, "affinity mask");
    CPU_ZERO_S(bytes_, set_.get());
  }

  cpu_set_t* get() { return set_.get(); }
  std::size_t bytes() const { return bytes_; }
  void add(Pu pu) { CPU_SET_S(static_cast<std::size_t>(pu.os_index), bytes_, set_.get()); }
  CpuSet members() const {
    std::vector<Pu> pus;
    for (int cpu = 0; cpu < bits_; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes_, set_.get())) pus.push_back(Pu{cpu});
    }
    return CpuSet(std::move(pus));
  }

 private:
  struct Free {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  int bits_;
  std::size_t bytes_;
  std::unique_ptr<cpu_set_t, Free> set_;
};

}  // namespace

CpuSet thread_affinity(pid_t tid) {
  // EINVAL means that the kernel's mask is longer than ours. The only way to learn its length is to try.
  for (int bits = 1024;; bits *= 2) {
    Mask mask(bits);
    if (sched_getaffinity(tid, mask.bytes(), mask.get()) == 0) return mask.members();
    if (errno != EINVAL || bits > kMaxOsIndex) {
      throw_errno(errno, fmt::format("cannot read the affinity mask of thread {}", tid));
    }
  }
}

void bind_this_thread(const CpuSet& cpus) {
  assert(!cpus.empty());
  Mask mask(cpus.last().os_index + 1);
  for (const Pu pu : cpus) mask.add(pu);
  if (sched_setaffinity(0, mask.bytes(), mask.get()) != 0) {
    throw_errno(errno, fmt::format("cannot bind to CPUs {}", print(cpus)),
                "`zf-tune probe` lists the CPUs that are allowed here");
  }
  const CpuSet bound = thread_affinity();
  if (bound == cpus) return;
  throw Error(Exit::runtime_error,
              fmt::format("bound to CPUs {} instead of {}: the kernel left out {}", print(bound), print(cpus),
                          print(cpus - bound)),
              "`zf-tune probe` lists the CPUs that are allowed here");
}

}  // namespace zf
