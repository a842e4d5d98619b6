// Borrows the team of the OpenMP runtime that the process has loaded, such as PyTorch's. We link none.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "engine/team.hpp"

namespace zf {

/// Runs work in one parallel region of a foreign OpenMP runtime, on the threads that it has anyway. The
/// region has the size that the runtime gives to the calling thread (omp_get_max_threads()). A team of
/// another size beside it would cost 0.2 to 1.4 ms a region: GNU's runtime ends threads and starts others.
///
/// Not in a forked child: if the parent has run a region, its threads are missing there, and a region hangs.
class OpenmpTeam final : public Team {
 public:
  /// Returns the team of the runtime that the process's own calls reach, or of the one that libtorch_cpu.so
  /// is linked to; null if neither is loaded, or if it lacks GOMP_parallel (GNU's and LLVM's have it).
  static std::unique_ptr<OpenmpTeam> find();

  std::size_t size() const override;
  /// Returns true if the calling thread is in a parallel region. A region within it would have one thread, or
  /// more threads than there are CPUs.
  bool is_inside_region() const { return calls_.in_parallel() != 0; }
  /// Returns the path of the runtime.
  const std::string& path() const { return path_; }

 private:
  struct Calls {
    void (*parallel)(void (*region)(void*), void* data, unsigned threads, unsigned flags);
    int (*thread_num)();
    int (*num_threads)();
    int (*max_threads)();
    int (*in_parallel)();
  };
  struct Region {
    const Calls* calls;
    Erased work;
    void* context;
  };
  OpenmpTeam(const Calls& calls, std::string path) : calls_(calls), path_(std::move(path)) {}
  static void region(void* data);
  void run_erased(Erased work, void* context) noexcept override;

  const Calls calls_;
  const std::string path_;
};

}  // namespace zf
