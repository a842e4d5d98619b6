#include "os/affinity.hpp"

#include <sched.h>

#include <cassert>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"

namespace zf {
namespace {

/// Returns whether this is what a filter of system calls answers.
bool is_refused(int error) { return error == EPERM || error == ENOSYS; }

const char* noun(const CpuSet& set) { return set.size() == 1 ? "CPU" : "CPUs"; }

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

std::optional<CpuSet> find_thread_affinity(pid_t tid) {
  // EINVAL means that the kernel's mask is longer than ours. The only way to learn its length is to try.
  for (int bits = 1024;; bits *= 2) {
    Mask mask(bits);
    if (sched_getaffinity(tid, mask.bytes(), mask.get()) == 0) return mask.members();
    if (errno == ESRCH) return std::nullopt;
    if (const int error = errno; error != EINVAL || bits > kMaxOsIndex) {
      throw_errno(error, format_text("cannot read the affinity mask of thread {}", tid),
                  is_refused(error) ? "allow sched_getaffinity in the sandbox" : "");
    }
  }
}

CpuSet thread_affinity(pid_t tid) {
  if (auto found = find_thread_affinity(tid)) return *found;
  throw_errno(ESRCH, format_text("cannot read the affinity mask of thread {}", tid));
}

std::optional<CpuSet> set_thread_affinity(pid_t tid, const CpuSet& cpus) {
  assert(!cpus.empty());
  Mask mask(cpus.last().os_index + 1);
  for (const Pu pu : cpus) mask.add(pu);
  if (sched_setaffinity(tid, mask.bytes(), mask.get()) == 0) return find_thread_affinity(tid);
  const int error = errno;
  if (error == ESRCH) return std::nullopt;
  throw_errno(error, format_text("cannot bind to {} {}", noun(cpus), print(cpus)),
              is_refused(error) ? "allow sched_setaffinity in the sandbox"
                                : "`zf-tune probe` lists the CPUs that are allowed here");
}

std::optional<CpuSet> widest_thread_affinity() {
  Mask every(kMaxOsIndex + 1);  // the kernel ignores the bits beyond its own mask
  for (int cpu = 0; cpu <= kMaxOsIndex; ++cpu) every.add(Pu{cpu});
  if (sched_setaffinity(0, every.bytes(), every.get()) != 0) return std::nullopt;
  return thread_affinity();
}

void bind_this_thread(const CpuSet& cpus) {
  const CpuSet bound = set_thread_affinity(0, cpus).value_or(CpuSet());
  if (bound == cpus) return;
  throw Error(Exit::runtime_error,
              format_text("bound to {} {} instead of {}: the kernel left out {}", noun(bound), print(bound),
                          print(cpus), print(cpus - bound)),
              "`zf-tune probe` lists the CPUs that are allowed here");
}

}  // namespace zf
