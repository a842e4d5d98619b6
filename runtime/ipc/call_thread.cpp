#include "ipc/call_thread.hpp"

#include <pthread.h>

#include <utility>

#include "base/start_thread.hpp"

namespace zf {

CallThread::CallThread(const std::string& name) {
  thread_ = start_thread("the thread " + name, [this] { serve(); });
  pthread_setname_np(thread_.native_handle(), name.c_str());
}

CallThread::~CallThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CallThread::run(const std::function<void()>& work) {
  const std::lock_guard turn(one_caller_);
  std::unique_lock lock(mutex_);
  work_ = &work;
  changed_.notify_all();
  changed_.wait(lock, [this] { return work_ == nullptr; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void CallThread::serve() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return work_ != nullptr || stopping_; });
    if (work_ == nullptr) return;
    try {
      (*work_)();
    } catch (...) {
      failure_ = std::current_exception();
    }
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace zf
