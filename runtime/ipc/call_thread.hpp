// A thread that makes calls for other threads.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace zf {

/// Makes the calls of other threads on one thread that lives as long as this object. Linux sends a child the
/// signal of PR_SET_PDEATHSIG when the thread that started it ends, and not only when the process ends. So a
/// child that asks for that signal is started here. An execve() of the process ends this thread too.
class CallThread {
 public:
  /// Starts the thread. It has the name, the CPU mask and the memory policy of the caller, and blocks all
  /// signals. Throws Error(runtime_error).
  explicit CallThread(const std::string& name);
  /// Ends the thread. Precondition: no thread is in run().
  ~CallThread();
  CallThread(const CallThread&) = delete;
  CallThread& operator=(const CallThread&) = delete;

  /// Calls `work` on the thread, and returns or throws when it has. Thread-safe.
  void run(const std::function<void()>& work);

 private:
  void serve() noexcept;

  std::mutex one_caller_;
  std::mutex mutex_;  ///< protects the next four
  std::condition_variable changed_;
  const std::function<void()>* work_ = nullptr;  ///< of the caller who waits
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace zf
