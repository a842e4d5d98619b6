#include "inspect/live_threads.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "inspect/processes.hpp"
#include "os/affinity.hpp"
#include "os/environment.hpp"
#include "plan/process_binding.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

constexpr std::size_t kCallsPerSearch = 10;

/// Returns the fields of a stat file from the third on (proc(5)). It counts from behind the name, which may
/// contain blanks and brackets.
std::vector<std::string> stat_fields(const std::string& stat) {
  std::istringstream words(stat.substr(std::min(stat.rfind(')') + 1, stat.size())));
  std::vector<std::string> fields;
  for (std::string word; words >> word;) fields.push_back(std::move(word));
  return fields;
}

template <class Number>
std::optional<Number> stat_number(const SysRoot& sysroot, const std::string& folder, std::size_t field) {
  const auto stat = sysroot.read(folder + "/stat");
  const auto fields = stat_fields(stat.value_or(""));
  return field - 3 < fields.size() ? parse_number<Number>(fields[field - 3]) : std::nullopt;
}

/// Returns the present time as field 22 of stat counts it.
std::uint64_t ticks_since_boot(std::uint64_t ticks_per_s) {
  timespec now = {};
  if (::clock_gettime(CLOCK_BOOTTIME, &now) != 0) throw_errno(errno, "clock_gettime(CLOCK_BOOTTIME)");
  return static_cast<std::uint64_t>(now.tv_sec) * ticks_per_s +
         static_cast<std::uint64_t>(now.tv_nsec) * ticks_per_s / static_cast<std::uint64_t>(kSecondNs);
}

std::string folder_of(const ThreadId& thread) {
  return format_text("/proc/{}/task/{}", thread.pid, thread.tid);
}

/// Returns true for the C library and its parts.
bool is_c_library(std::string_view name) {
  constexpr std::array<std::string_view, 4> kBeginnings{"libc.so", "libc-", "libpthread", "ld-"};
  for (const std::string_view beginning : kBeginnings) {
    if (name.starts_with(beginning)) return true;
  }
  return false;
}

/// Returns the name of the file that is mapped at an address; empty if there is none.
std::string file_at(const std::string& maps, std::uint64_t address) {
  std::istringstream lines(maps);
  for (std::string line; std::getline(lines, line);) {  // "7f6c…-7f6d… r-xp 0000 08:01 42   /usr/lib/libx.so"
    const auto dash = line.find('-');
    const auto blank = line.find(' ');
    if (dash == std::string::npos || blank == std::string::npos || dash > blank) continue;
    const auto low = parse_number<std::uint64_t>(line.substr(0, dash), 16);
    const auto high = parse_number<std::uint64_t>(line.substr(dash + 1, blank - dash - 1), 16);
    if (!low || !high || address < *low || address >= *high) continue;
    return line.find('/') == std::string::npos ? "" : line.substr(line.rfind('/') + 1);
  }
  return "";
}

/// Returns the library that holds a sleeping thread's program counter; empty if it is not known, or says
/// nothing.
std::string library_of(const SysRoot& sysroot, const ThreadId& thread) {
  const std::string words = sysroot.read(folder_of(thread) + "/syscall").value_or("");
  const std::string last = words.substr(words.rfind(' ') + 1);  // "running" if it does not sleep
  const auto counter =
      last.starts_with("0x") ? parse_number<std::uint64_t>(last.substr(2), 16) : std::nullopt;
  if (!counter) return "";
  const std::string name =
      file_at(sysroot.read(format_text("/proc/{}/maps", thread.pid)).value_or(""), *counter);
  return is_c_library(name) ? "" : name;
}

/// The thread that zf_runtime.bind() starts on the home before it moves others, and that ends after a minute.
constexpr std::string_view kBindingThread = "zf-look";
constexpr std::string_view kOptimizerName = "zf-optimizer";

/// The watched processes, which are searched for now and then.
struct Family {
  std::vector<int> roots;
  std::set<int> members = {};
  std::size_t calls = 0;
  std::map<int, ProcessSides> sides = {};  ///< of processes in which our runtime was seen open
  std::set<int> open = {};                 ///< those in which it is open now
};

/// Returns the sides by the ZF_BINDING that a process was started with, if our runtime may narrow it.
std::optional<ProcessSides> sides_in(const SysRoot& sysroot, int pid) {
  try {
    const auto binding = own_binding(environment_of(sysroot, pid).value_or(Environment()));
    if (!binding || binding->started_on != StartedOn::home) return std::nullopt;
    return ProcessSides{binding->rank.home.cpus, binding->rank.training.cpus};
  } catch (const Error&) {  // a line that cannot be read counts for no thread
    return std::nullopt;
  }
}

/// Looks for new members. A zf-optimizer tells the sides of the process that has started it: what bind() has
/// set there is not in /proc.
void search(const SysRoot& sysroot, Family& family) {
  // A member stays one if its parent ends. One that has ended has no threads.
  std::set<int> now(family.roots.begin(), family.roots.end());
  now.insert(family.members.begin(), family.members.end());
  std::erase_if(now, [&](int pid) { return !sysroot.exists(format_text("/proc/{}/task", pid)); });
  family.members = with_descendants(sysroot, std::move(now));
  family.open.clear();
  for (const int pid : family.members) {
    const std::string folder = format_text("/proc/{}", pid);
    if (sysroot.read(folder + "/comm") != kOptimizerName) continue;
    const auto parent = stat_number<int>(sysroot, folder, 4);
    const auto sides = sides_in(sysroot, pid);
    if (parent) family.open.insert(*parent);
    if (parent && sides) family.sides[*parent] = *sides;
  }
}

}  // namespace

std::set<int> with_descendants(const SysRoot& sysroot, std::set<int> pids) {
  std::vector<std::pair<int, int>> parents;  // a process, and its parent
  for (const int id : process_ids(sysroot)) {
    if (const auto parent = stat_number<int>(sysroot, format_text("/proc/{}", id), 4))
      parents.emplace_back(id, *parent);
  }
  // Process ids wrap around, so a child may have a lower id than its parent: repeat until no new one is
  // found.
  for (std::size_t known = 0; known != pids.size();) {
    known = pids.size();
    for (const auto& [id, parent] : parents) {
      if (pids.contains(parent)) pids.insert(id);
    }
  }
  return pids;
}

ThreadSource live_threads(std::vector<int> pids) {
  const auto family = std::make_shared<Family>(Family{std::move(pids)});
  ThreadSource source;
  source.list = [family] {
    const SysRoot sysroot;
    if (family->calls++ % kCallsPerSearch == 0) search(sysroot, *family);
    std::vector<ThreadId> threads;
    for (const int pid : family->members) {
      for (const std::string& name : sysroot.list(format_text("/proc/{}/task", pid))) {
        if (const auto tid = parse_number<int>(name)) threads.push_back({pid, *tid});
      }
    }
    return threads;
  };
  source.cpus = [](const ThreadId& thread) { return find_thread_affinity(thread.tid); };
  source.binding_thread = [](int pid) -> std::optional<ThreadId> {
    const SysRoot sysroot;
    for (const std::string& name : sysroot.list(format_text("/proc/{}/task", pid))) {
      const auto tid = parse_number<int>(name);
      if (tid && sysroot.read(folder_of({pid, *tid}) + "/comm") == kBindingThread) return ThreadId{pid, *tid};
    }
    return std::nullopt;
  };
  source.sides = [family](int pid) -> std::optional<ProcessSides> {
    const SysRoot sysroot;
    search(sysroot, *family);
    const auto found = family->sides.find(pid);
    auto sides = found != family->sides.end() ? found->second : sides_in(sysroot, pid);
    if (sides) sides->is_open = family->open.contains(pid);
    return sides;
  };
  source.started = [](const ThreadId& thread) {
    return stat_number<std::uint64_t>(SysRoot(), folder_of(thread), 22);
  };
  source.ticks_per_s = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  source.now = [ticks_per_s = source.ticks_per_s] { return ticks_since_boot(ticks_per_s); };
  return source;
}

std::string name_of_thread(const SysRoot& sysroot, const ThreadId& thread) {
  if (thread.tid == thread.pid) return "the main thread";
  const auto name = sysroot.read(folder_of(thread) + "/comm");
  if (name && !name->empty() && name != sysroot.read(format_text("/proc/{}/comm", thread.pid))) return *name;
  const std::string library = library_of(sysroot, thread);
  return library.empty() ? "unnamed" : "unnamed, in " + library;
}

}  // namespace zf
