#include "tuner/plan_in_memory.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <span>
#include <string>

#include "base/error.hpp"
#include "base/file_descriptor.hpp"
#include "os/file.hpp"
#include "plan/plan_json.hpp"

namespace zf {
namespace {

/// Above what shell scripts number by hand.
constexpr int kLowestDescriptor = 100;

}  // namespace

std::filesystem::path plan_in_memory(const Plan& plan) {
  const char* const what = "cannot hold the plan in memory";
  const FileDescriptor file(checked(::memfd_create("zf-plan.json", MFD_CLOEXEC | MFD_ALLOW_SEALING), what));
  const std::string text = print_plan(plan);
  if (const int error = write_all_at(file.get(), 0, std::as_bytes(std::span(text))); error != 0)
    throw_errno(error, what);
  checked(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL), what);
  const int kept = checked(::fcntl(file.get(), F_DUPFD, kLowestDescriptor), what);
  // Not /proc/self: for a child that would be its own, and Python's children have no such descriptor.
  return fmt::format("/proc/{}/fd/{}", ::getpid(), kept);
}

}  // namespace zf
