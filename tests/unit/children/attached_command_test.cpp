#include "children/attached_command.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "children/temporary_folder.hpp"

namespace zf {
namespace {

/// Runs the script, which makes the file $READY. Once that is there, the script is asked to end.
ExitStatus stop_when_ready(const std::string& script, Nanoseconds patience) {
  const TemporaryFolder folder("zf-attached-test");
  const std::string ready = folder / "ready";
  return run_attached(
             {"sh", "-c", script}, {{"READY", ready}}, [&] { return std::filesystem::exists(ready); },
             patience)
      .status;
}

TEST(RunAttached, OneThatIsStoppedMayEndByItself) {
  const char* const script = "trap 'exit 7' TERM; : >$READY; while :; do sleep 0.02; done";
  EXPECT_EQ(stop_when_ready(script, 30 * kSecondNs).code, 7);
}

// Its command ends by itself after 20 s, so that a failure does not hang.
TEST(RunAttached, OneThatIgnoresSigtermIsKilled) {
  const char* const script = "trap '' TERM; : >$READY; exec sleep 20";
  EXPECT_EQ(stop_when_ready(script, kSecondNs / 5).signal, SIGKILL);
}

TEST(RunAttached, OneThatNobodyStopsRunsToItsEnd) {
  EXPECT_EQ(run_attached({"sh", "-c", "exit 3"}, {}, [] { return false; }).status.code, 3);
}

TEST(RunAttached, ASignalThatTheCommandSurvivesIsTold) {
  const AttachedEnd end =
      run_attached({"sh", "-c", "trap 'exit 0' TERM; kill -TERM $PPID; while :; do sleep 0.02; done"}, {},
                   [] { return false; });
  EXPECT_EQ(end.status.code, 0);
  EXPECT_EQ(end.interrupt, SIGTERM);
}

}  // namespace
}  // namespace zf
