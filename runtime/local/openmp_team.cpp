#include "local/openmp_team.hpp"

#include <dlfcn.h>

#include <algorithm>

namespace zf {
namespace {

/// Returns the function that starts a region. Its name is GNU's, and LLVM's runtime has it for programs that
/// GCC compiled.
void* find_parallel() {
  constexpr const char* name = "GOMP_parallel";
  // A runtime that is visible to all comes first, even if libtorch_cpu.so is linked to another one: torch's
  // own calls reach this one too.
  if (void* const found = dlsym(RTLD_DEFAULT, name)) return found;
  // Python loads torch so that its symbols are not visible to all. A lookup in a library includes what it is
  // linked to. The library stays loaded, as Python never unloads it.
  void* const torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  return torch != nullptr ? dlsym(torch, name) : nullptr;
}

/// Sets a function to the one of this name in the library that begins at `base`. Returns false if it has
/// none.
template <class Function>
bool take(Function*& function, void* library, const char* name, const void* base) {
  void* const found = dlsym(library, name);
  Dl_info info = {};
  if (found == nullptr || dladdr(found, &info) == 0 || info.dli_fbase != base) return false;
  function = reinterpret_cast<Function*>(found);
  return true;
}

}  // namespace

std::unique_ptr<OpenmpTeam> OpenmpTeam::find() {
  void* const parallel = find_parallel();
  Dl_info info = {};
  if (parallel == nullptr || dladdr(parallel, &info) == 0) return nullptr;
  // The program itself may contain the runtime. Its path cannot be opened then.
  void* library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) library = RTLD_DEFAULT;
  Calls calls = {};
  const auto has = [&](auto*& function, const char* name) {
    return take(function, library, name, info.dli_fbase);
  };
  if (!has(calls.parallel, "GOMP_parallel") || !has(calls.thread_num, "omp_get_thread_num") ||
      !has(calls.num_threads, "omp_get_num_threads") || !has(calls.max_threads, "omp_get_max_threads") ||
      !has(calls.in_parallel, "omp_in_parallel")) {
    return nullptr;
  }
  return std::unique_ptr<OpenmpTeam>(new OpenmpTeam(calls, info.dli_fname));
}

std::size_t OpenmpTeam::size() const { return static_cast<std::size_t>(std::max(calls_.max_threads(), 1)); }

void OpenmpTeam::region(void* data) {
  const auto& self = *static_cast<const Region*>(data);
  self.work(self.context, static_cast<std::size_t>(self.calls->thread_num()),
            static_cast<std::size_t>(self.calls->num_threads()));
}

void OpenmpTeam::run_erased(Erased work, void* context) noexcept {
  Region data = {&calls_, work, context};
  calls_.parallel(region, &data, 0, 0);  // 0 threads: as many as the runtime gives to any region
}

}  // namespace zf
