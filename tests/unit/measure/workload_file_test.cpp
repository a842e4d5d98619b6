#include "measure/training_demand.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.hpp"
#include "os/file.hpp"

namespace zf {
namespace {

namespace fs = std::filesystem;

TEST(WorkloadFile, EveryShippedOneIsSoundAndNamedAfterItself) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(ZF_SOURCE_DIR "/configs/workloads")) {
    if (entry.path().extension() != ".json") continue;
    EXPECT_EQ(load_workload(entry.path()).name, entry.path().stem());
    ++count;
  }
  EXPECT_GE(count, 4);
}

TEST(WorkloadFile, TheFormerFormatIsOverlapAndUnknown) {
  const fs::path path = fs::temp_directory_path() / ("zf-workload-1-" + std::to_string(::getpid()) + ".json");
  write_text_file_atomically(
      path,
      R"({"schema": "zf-workload/1", "name": "x", "params": 10, "ranks": 2, "update_interval": 4, "source": "test"})");
  EXPECT_EQ(load_workload(path).mode, Mode::overlap);
  EXPECT_EQ(load_workload(path).framework, Framework::unknown);
  fs::remove(path);
}

TEST(WorkloadFile, TheFormerFormatHasBytesOfEachTrainingStep) {
  const fs::path path =
      fs::temp_directory_path() / ("zf-workload-1t-" + std::to_string(::getpid()) + ".json");
  write_text_file_atomically(
      path,
      R"({"schema": "zf-workload/1", "name": "x", "params": 10, "ranks": 2, "update_interval": 4, "source": "test",
          "training": {"launches": 3, "launch_ns": 5, "host_bytes": 100, "copy_bytes": 20, "copy_bytes_per_s": 7,
                       "gpu_ns": 9}})");
  EXPECT_EQ(load_workload(path).training, (TrainingDemand{3, 5, 9, 400, 80, 0, 7}));
  fs::remove(path);
}

TEST(WorkloadFile, WithoutAModeTrainingWaits) {
  const fs::path path = fs::temp_directory_path() / ("zf-workload-2-" + std::to_string(::getpid()) + ".json");
  write_text_file_atomically(
      path,
      R"({"schema": "zf-workload/2", "name": "x", "params": 10, "ranks": 2, "update_interval": 4, "source": "test"})");
  EXPECT_EQ(load_workload(path).mode, Mode::wait);
  fs::remove(path);
}

TEST(WorkloadFile, WhatIsWrongIsNamed) {
  const std::string good =
      R"({"schema": "zf-workload/2", "name": "x", "params": 10, "ranks": 2, "update_interval": 4, "mode": "wait", "framework": "torch", "source": "test"})";
  const fs::path path = fs::temp_directory_path() / ("zf-workload-" + std::to_string(::getpid()) + ".json");
  write_text_file_atomically(path, good);
  EXPECT_EQ(load_workload(path).params, 10U);
  EXPECT_EQ(load_workload(path).mode, Mode::wait);
  EXPECT_EQ(load_workload(path).framework, Framework::torch);
  for (const auto& [from, to, field] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"\"params\": 10", "\"params\": -1", "params"},
           {"\"ranks\": 2", "\"ranks\": \"2\"", "ranks"},
           {"\"update_interval\": 4, ", "", "update_interval"},
           {"zf-workload/2", "zf-workload/3", "schema"},
           {"zf-workload/2", "zf-plan/1", "it must be \"zf-workload/2\" or \"zf-workload/1\""},
           {"\"wait\"", "\"late\"", "mode"},
           {"\"torch\"", "\"jax\"", "framework"},
           {"\"source\"", "\"sauce\"", "sauce"}}) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    write_text_file_atomically(path, bad);
    try {
      load_workload(path);
      ADD_FAILURE() << bad << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::usage);
      EXPECT_THAT(error.what(), testing::HasSubstr(path.string()));
      EXPECT_THAT(error.what(), testing::HasSubstr(field));
    }
  }
  fs::remove(path);
}

}  // namespace
}  // namespace zf
