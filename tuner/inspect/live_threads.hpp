// Reads the threads of running processes, as a ThreadSource, and how to call one.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "inspect/thread_watch.hpp"
#include "os/sysroot.hpp"

namespace zf {

/// Returns these processes and all below them. Reads one file for each process of the machine.
std::set<int> with_descendants(const SysRoot& sysroot, std::set<int> pids);

/// Returns the threads of the processes and of all below them. New processes are looked for at every tenth
/// call of `list`, because that takes longest. Reads this machine.
ThreadSource live_threads(std::vector<int> pids);

/// Returns how to call a thread: by its name if that is not its process's; else by the library that holds its
/// program counter while it sleeps ("unnamed, in libgomp.so.1"), if /proc says it and that is not the C
/// library, where every thread may sleep; else "unnamed". The main thread is "the main thread".
std::string name_of_thread(const SysRoot& sysroot, const ThreadId& thread);

}  // namespace zf
