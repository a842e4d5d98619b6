#include "measure/workload_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.hpp"
#include "os/atomic_file.hpp"
#include "paths.hpp"

namespace zf {
namespace {

namespace fs = std::filesystem;

TEST(WorkloadFile, EveryShippedOneIsSoundAndNamedAfterItself) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(std::string(kSourceDir) + "/configs/workloads")) {
    if (entry.path().extension() != ".json") continue;
    EXPECT_EQ(load_workload(entry.path()).name, entry.path().stem());
    ++count;
  }
  EXPECT_GE(count, 4);
}

WorkloadFile recorded_file() {
  WorkloadFile file;
  file.workload = {"job",
                   1000,
                   1,
                   2,
                   TrainingDemand{1, 5, 0, 0, 0, 0, 0, 0.25, 70, 0.125, 0.0625, 9},
                   Mode::wait,
                   Framework::torch,
                   1.5};
  file.estimates = {"training.launch_ns"};
  file.recorded = Recorded{20, 2, 100, 40, 10, 30, 20, 55, 30};
  file.source = "test";
  return file;
}

WorkloadFile written_and_read(const WorkloadFile& file) {
  const fs::path path = fs::temp_directory_path() / ("zf-workload-r-" + std::to_string(::getpid()) + ".json");
  write_text_file_atomically(path, print_workload_file(file));
  WorkloadFile read = load_workload_file(path);
  fs::remove(path);
  return read;
}

TEST(WorkloadFile, ARecordedOneIsReadAsItWasWritten) {
  const WorkloadFile file = recorded_file();
  const WorkloadFile read = written_and_read(file);
  EXPECT_EQ(read.workload, file.workload);
  EXPECT_EQ(read.estimates, file.estimates);
  EXPECT_EQ(read.recorded, file.recorded);
  EXPECT_EQ(read.source, file.source);
}

TEST(WorkloadFile, AnEstimateNamesAFieldThatThereIs) {
  WorkloadFile file = recorded_file();
  file.estimates = {"training.luck"};
  EXPECT_THROW(written_and_read(file), Error);
}

TEST(WorkloadFile, OfRanksTheSlowestCountsAndParametersAddUp) {
  WorkloadFile slow = recorded_file();
  slow.workload.params = 500;
  slow.workload.training->parallel_ns = 90;
  slow.workload.training->last_gradient_ns = 11;
  slow.recorded->period_ns = 120;
  slow.recorded->updates = 18;
  slow.estimates = {"step_factor"};
  const WorkloadFile all = joined_ranks({recorded_file(), slow});
  EXPECT_EQ(all.workload.params, 1500U);
  EXPECT_EQ(all.workload.ranks, 2);
  EXPECT_EQ(all.workload.training->parallel_ns, 90);
  EXPECT_EQ(all.workload.training->last_gradient_ns, 11);
  EXPECT_EQ(all.recorded->period_ns, 120);
  EXPECT_EQ(all.recorded->updates, 18);
  EXPECT_EQ(all.estimates, (std::vector<std::string>{"training.launch_ns", "step_factor"}));
}

TEST(WorkloadFile, RanksOfDifferentJobsAreRefused) {
  WorkloadFile other = recorded_file();
  other.workload.update_interval = 4;
  try {
    joined_ranks({recorded_file(), other});
    ADD_FAILURE() << "they were joined";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("torch in mode wait with update interval 4"));
  }
}

TEST(WorkloadFile, ARecordingWithoutEstimatesSaysSo) {
  WorkloadFile file = recorded_file();
  file.estimates = {};
  EXPECT_THAT(print_workload_file(file), testing::HasSubstr("\"estimates\": []"));
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
           {"\"mode\": \"wait\", ", "", "mode: is missing"},
           {"zf-workload/2", "zf-workload/3", "schema"},
           {"zf-workload/2", "zf-plan/1", "it must be \"zf-workload/2\"; "},
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
