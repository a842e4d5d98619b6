// An object with threads that lives as long as the library.
#pragma once

#include <unistd.h>

namespace zf {

/// Returns the only T of this process, which is made at the first call. Returns null in a child that was
/// forked since: it has a copy of the object, but not its threads. T::end() must join all threads; it is
/// called when the program ends, or before the library is unloaded. The object itself is never destroyed: it
/// may be used by destructors that run after those of this library, and the end of a forked child must not
/// destroy threads that are joined nowhere.
template <class T>
T* background() {
  static T* const only = new T;
  static const pid_t owner = getpid();
  struct EndsThreads {
    EndsThreads() = default;
    ~EndsThreads() {
      if (getpid() == owner) only->end();
    }
    EndsThreads(const EndsThreads&) = delete;
    EndsThreads& operator=(const EndsThreads&) = delete;
  };
  static const EndsThreads at_exit;
  return getpid() == owner ? only : nullptr;
}

}  // namespace zf
