#include "ipc/call_thread.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "base/error.hpp"

namespace zf {
namespace {

TEST(CallThread, MakesEveryCallOnOneThread) {
  CallThread thread("zf-test");
  pid_t first = 0;
  thread.run([&] { first = ::gettid(); });
  EXPECT_NE(first, ::gettid());
  std::vector<std::thread> callers;
  std::vector<pid_t> ran_on(4);
  for (pid_t& tid : ran_on) callers.emplace_back([&] { thread.run([&] { tid = ::gettid(); }); });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(ran_on, std::vector<pid_t>(4, first));
}

TEST(CallThread, AnErrorComesBackToTheCallerAndTheNextCallWorks) {
  CallThread thread("zf-test");
  EXPECT_THROW(thread.run([] { throw Error(Exit::runtime_error, "no"); }), Error);
  bool ran = false;
  thread.run([&] { ran = true; });
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace zf
