// Checks that the kernel grants the system calls which a plan needs.
#include "inspect/doctor.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"
#include "os/affinity.hpp"
#include "os/memory.hpp"

namespace zf {
namespace {

/// One page that no thread has touched.
class Page {
 public:
  Page() : bytes_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
    start_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start_ == MAP_FAILED) throw_errno(errno, "mmap of one page");
  }
  ~Page() { ::munmap(start_, bytes_); }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  void* start() const { return start_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  void* start_;
};

}  // namespace

// A seccomp filter or missing capabilities may refuse these calls, often in containers.
std::vector<std::string> try_system_calls() {
  std::vector<std::string> refused;
  // A policy is a thread's own, so the one of this thread stays as it is.
  try {
    std::thread([&] {
      if (auto refusal = set_thread_memory_policy(MemoryPolicy::preferred, {}))
        refused.push_back(std::move(*refusal));
    }).join();
  } catch (const std::system_error& error) {
    throw Error(Exit::runtime_error, format_text("cannot start a thread: {}", error.what()), kTaskLimitHint);
  }
  const Page page;
  if (auto refusal = set_range_memory_policy(MemoryPolicy::preferred, {}, page.start(), page.bytes())) {
    refused.push_back(std::move(*refusal));
  }
  if (auto refusal = count_pages(page.start(), page.bytes()).refusal) refused.push_back(std::move(*refusal));
  try {
    bind_this_thread(thread_affinity());
  } catch (const Error& error) {
    refused.push_back(format_text("sched_setaffinity: {}", error.what()));
  }
  return refused;
}

std::vector<Finding> system_call_findings(const Patient& patient) {
  std::vector<Finding> findings;
  for (const std::string& refusal : patient.refused_calls) {
    const bool binding = refusal.starts_with("sched_setaffinity");
    findings.push_back(
        {binding ? Severity::severe : Severity::warning,
         format_text("{}: {}", refusal,
                     binding ? "no plan can be carried out" : "only first touch decides where memory lies"),
         "allow the call in the container: docker --cap-add SYS_NICE, or a seccomp profile that permits it"});
  }
  return findings;
}

}  // namespace zf
