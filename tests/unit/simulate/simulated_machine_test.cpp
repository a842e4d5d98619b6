#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "measure/training_demand.hpp"
#include "measure/workload_file.hpp"
#include "os/atomic_file.hpp"
#include "os/file.hpp"
#include "paths.hpp"
#include "plan/period.hpp"
#include "simulate/simulated_job.hpp"
#include "simulate/simulated_meter.hpp"

namespace zf {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

const fs::path kConfigs = fs::path(kSourceDir) / "configs";

fs::path machine_file(const char* name) { return kConfigs / "machines" / name; }

Workload workload_named(const char* name) { return load_workload(kConfigs / "workloads" / name); }

double period_of(const SimulatedJob& job, const SplitShape& shape) {
  const SplitSample times = job.model.times_of(split_of(job.placed.homes, shape));
  return period_ns(times, schedule_of(job.model.workload(), 1));
}

TEST(SimulatedMachine, EveryShippedOneRuns) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(kConfigs / "machines")) {
    if (entry.path().extension() != ".json") continue;
    SCOPED_TRACE(entry.path());
    const SimulatedJob job = simulated_job(entry.path(), {}, {});
    EXPECT_GT(period_of(job, {.pool_cores = 1}), 0);
    ++count;
  }
  EXPECT_GE(count, 7);
}

// The model gives the same orders of splits as published measurements (DeepSpeed's ZenFlow issues).
TEST(SimulatedMachine, HalfOfTheCoresReservedBeatsTwoFor05BOnTwoTimes16Cores) {
  const SimulatedJob job =
      simulated_job(machine_file("xeon-2x16-2gpu.json"), workload_named("qwen2.5-0.5b-2gpu.json"), {});
  EXPECT_LT(1.1 * period_of(job, {.control = Control::half}), period_of(job, {.pool_cores = 14}));
}

TEST(SimulatedMachine, ASplitBeatsUnboundFor3BOnTwoTimes64Cores) {
  for (const char* name : {"epyc-7742-8gpu-nps1.json", "epyc-7742-8gpu-nps4.json"}) {
    const SimulatedJob job = simulated_job(machine_file(name), workload_named("qwen2.5-3b-2gpu.json"), 2);
    double best = std::numeric_limits<double>::infinity();
    for (int pool = 1; pool < 64; ++pool) best = std::min(best, period_of(job, {.pool_cores = pool}));
    EXPECT_LT(1.02 * best, period_of(job, {.control = Control::unbound})) << name;
  }
}

TEST(SimulatedMachine, StepsAsLongAsPublishedWhenAlone) {
  constexpr int kAllButOne = 1000;
  // 3.086B parameters: 0.6 s on 2x EPYC 7742, 0.19 s on 2x Xeon 6972P.
  const auto alone_ns = [](const char* name) {
    const SimulatedJob job = simulated_job(machine_file(name), workload_named("qwen2.5-3b-2gpu.json"), 2);
    return static_cast<double>(
        job.model.times_of(split_of(job.placed.homes, {.pool_cores = kAllButOne})).roofline_ns);
  };
  EXPECT_NEAR(alone_ns("epyc-7742-8gpu-nps1.json"), 0.6e9, 0.06e9);
  EXPECT_NEAR(alone_ns("xeon-6972p-2.json"), 0.19e9, 0.02e9);
}

TEST(SimulatedMachine, ASlowNodeSlowsAllRanks) {
  const auto shipped = machine_file("xeon-2x16-2gpu.json");
  SimulatedMachine machine = load_simulated_machine(shipped);
  const SimulatedJob job = simulated_job(shipped, {}, {});
  machine.slow_node = {Node{1}, 0.5};
  const SimulatedModel slow(machine, job.model.workload());
  const Split half = split_of(job.placed.homes, {.control = Control::half});
  EXPECT_GT(slow.times_of(half).step_ns, 1.5 * static_cast<double>(job.model.times_of(half).step_ns));
}

TEST(SimulatedMachine, ASharedCoreSlowsBothSides) {
  const SimulatedJob job = simulated_job(machine_file("cloud-2vcpu.json"), {}, 2);
  const SimulatedJob apart =
      simulated_job(machine_file("cloud-2vcpu.json"), on_ranks(job.model.workload(), 1), 1);
  const SplitSample shared = job.model.times_of(split_of(job.placed.homes, {}));
  EXPECT_GT(shared.launch_delay_p50_ns,
            apart.model.times_of(split_of(apart.placed.homes, {})).launch_delay_p50_ns);
}

TEST(SimulatedMeter, TheSameSeedGivesTheSameSamplesAndAnotherOnesOthers) {
  const SimulatedJob job = simulated_job(machine_file("grace-hopper.json"), {}, {});
  const Split split = split_of(job.placed.homes, {.pool_cores = 4});
  const auto samples = [&](std::uint64_t seed) {
    SimulatedMeter meter(job.model, job.elements_per_rank, seed);
    return meter.measure(split, {.samples = 5});
  };
  EXPECT_EQ(samples(7), samples(7));
  EXPECT_NE(samples(7), samples(8));
}

TEST(SimulatedModel, ThePeriodIsThatOfTheMode) {
  Workload workload = workload_named("qwen2.5-3b-2gpu.json");
  workload.update_interval = 1;
  workload.training->gpu_ns /= 4;  // neither side hides the other, nor copies both
  workload.training->gradient_bytes /= 4;
  workload.training->parameter_bytes = 0;
  std::map<Mode, double> periods;
  for (const Mode mode : {Mode::overlap, Mode::exact, Mode::backward, Mode::wait}) {
    workload.mode = mode;
    periods[mode] =
        period_of(simulated_job(machine_file("grace-hopper.json"), workload, 1), {.pool_cores = 4});
  }
  EXPECT_LT(periods[Mode::overlap], periods[Mode::backward]);
  EXPECT_LT(periods[Mode::backward], periods[Mode::exact]) << "a forward hides less than a backward";
  EXPECT_LT(periods[Mode::exact], periods[Mode::wait]);
}

TEST(SimulatedModel, WhereTrainingWaitsTheSidesDoNotDisturbEachOther) {
  Workload workload = workload_named("qwen2.5-3b-2gpu.json");
  workload.mode = Mode::wait;
  const SimulatedJob job = simulated_job(machine_file("grace-hopper.json"), workload, 1);
  const SplitSample shared = job.model.times_of(split_of(job.placed.homes, control_shape(Control::shared)));
  EXPECT_EQ(shared.step_ns, shared.roofline_ns);
}

TEST(SimulatedModel, APoolOnTheSameCoresHoldsUpTheCopyOfGradients) {
  Workload workload = workload_named("qwen2.5-3b-2gpu.json");
  workload.update_interval = 1;
  workload.training = TrainingDemand{1, 0, 0, 0, 6'000'000'000, 0, 12'000'000'000};
  const SimulatedJob job = simulated_job(machine_file("grace-hopper.json"), workload, 1);
  const auto seconds_beside = [&](const SplitShape& shape) {
    const SplitSample times = job.model.times_of(split_of(job.placed.homes, shape));
    return static_cast<double>(times.training_ns) / static_cast<double>(kSecondNs);
  };
  EXPECT_NEAR(seconds_beside({.pool_cores = 8}), 1, 0.01) << "the rank copies what two would";
  EXPECT_GT(seconds_beside({.pool_cores = 72, .shared = true}), 1.1);
}

TEST(SimulatedModel, ComputingTakesHalfTheTimeOnTwiceTheCores) {
  Workload workload = workload_named("qwen2.5-0.5b-2gpu.json");
  workload.mode = Mode::wait;
  workload.training = TrainingDemand{1, 0, 0, 0, 0, 0, 0, {}, 800'000'000};
  const auto training_on = [&](int pool) {
    const SimulatedJob job = simulated_job(machine_file("xeon-2x16-2gpu.json"), workload, 2);
    const SplitSample times = job.model.times_of(split_of(job.placed.homes, {.pool_cores = pool}));
    return static_cast<double>(times.training_ns);
  };
  EXPECT_NEAR(training_on(8) / training_on(12), 0.5, 0.1);  // 8 and 4 of 16 cores train
}

TEST(SimulatedMeter, AVisitIsOffAsAWhole) {
  SimulatedMachine machine = load_simulated_machine(machine_file("grace-hopper.json"));
  machine.noise = {0, 0, 1, 0.05, 0, 60 * kSecondNs};
  const SimulatedJob job = simulated_job(machine, load_workload(machine.workload), 1);
  SimulatedMeter meter(job.model, job.elements_per_rank, 1);
  const Split split = split_of(job.placed.homes, {.pool_cores = 4});
  const auto first = meter.measure(split, {.samples = 3});
  EXPECT_EQ(first[0].step_ns, first[2].step_ns);
  EXPECT_NE(first[0].step_ns, meter.measure(split, {.samples = 3})[0].step_ns);
}

TEST(SimulatedMeter, CommonNoiseSlowsBothSidesOfAPeriodAlike) {
  SimulatedMachine machine = load_simulated_machine(machine_file("grace-hopper.json"));
  machine.noise = {0.05, 0.2, 3, 0, 0, 60 * kSecondNs};
  const auto differing = [&](bool is_common) {
    machine.noise.is_common = is_common;
    const SimulatedJob job = simulated_job(machine, load_workload(machine.workload), 1);
    SimulatedMeter meter(job.model, job.elements_per_rank, 1);
    const Split split = split_of(job.placed.homes, {.pool_cores = 4});
    const SplitSample ideal = job.model.times_of(split);
    int count = 0;
    for (const SplitSample& sample : meter.measure(split, {.samples = 20})) {
      const double step = static_cast<double>(sample.step_ns) / static_cast<double>(ideal.step_ns);
      const double training =
          static_cast<double>(sample.training_ns) / static_cast<double>(ideal.training_ns);
      count += std::abs(step / training - 1) > 1e-6 ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(differing(true), 0);
  EXPECT_EQ(differing(false), 20);
}

TEST(SimulatedMeter, ItsClockMovesWithWhatItMeasuresAndEndsAtTheDeadline) {
  const SimulatedJob job = simulated_job(machine_file("grace-hopper.json"), {}, {});
  SimulatedMeter meter(job.model, job.elements_per_rank, 1);
  const Split split = split_of(job.placed.homes, {.pool_cores = 4});
  EXPECT_EQ(meter.now(), 0);
  EXPECT_EQ(meter.measure(split, {9, 1}).size(), Meter::kMinSamples) << "even after the deadline";
  EXPECT_GT(meter.now(), 0);
}

class SimulatedMachineFile : public testing::Test {
 protected:
  void SetUp() override {
    path_ = fs::path(testing::TempDir()) / ("zf-machine-" + std::to_string(::getpid()) + ".json");
    good_ = json::parse(read_text_file(machine_file("desktop-4p-4e.json")));
    good_["slow_node"] = {{"node", 0}, {"speed", 0.5}};
  }
  void TearDown() override { fs::remove(path_); }

  std::string refusal(const json& document) {
    write_text_file_atomically(path_, document.dump());
    try {
      load_simulated_machine(path_);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::usage);
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
  }

  fs::path path_;
  json good_;
};

TEST_F(SimulatedMachineFile, EachWrongFieldIsNamed) {
  ASSERT_EQ(refusal(good_), "");
  const std::vector<std::pair<const char*, json>> cases = {
      {"/schema", "zf-machine/3"},
      {"/name", 1},
      {"/source", "me"},
      {"/topology", "pack:0"},
      {"/workload", nullptr},
      {"/ranks", 0},
      {"/gpu_nodes/0", 5},
      {"/kinds/0/cpus", "0-99"},
      {"/kinds/1/cpus", "4-7"},
      {"/kinds/1/speed", 0.1},
      {"/kinds/1/speed", 1.5},
      {"/memory/core_gb_per_s", 0},
      {"/memory/l3_gb_per_s", -1},
      {"/memory/node_gb_per_s", "60"},
      {"/memory/remote_gb_per_s", 1e300},
      {"/memory/sharpness", 0.5},
      {"/smt_gain", 0},
      {"/sync_ns_per_thread", -1},
      {"/launch/delay_ns", -1},
      {"/launch/crowding", true},
      {"/launch/interference", -0.1},
      {"/noise/relative", 0.5},
      {"/noise/outlier_rate", 1},
      {"/noise/outlier_factor", 0.5},
      {"/noise/visit", 1},
      {"/noise/drift", 1},
      {"/noise/drift_period_s", 0},
      {"/slow_node/node", 3},
      {"/slow_node/speed", 0},
  };
  for (const auto& [pointer, value] : cases) {
    json document = good_;
    const json::json_pointer path(pointer);
    document[path] = value;
    const std::string said = refusal(document);
    EXPECT_THAT(said, testing::StartsWith(path_.string())) << pointer;
    if (path.back() != "0") {
      EXPECT_THAT(said, HasSubstr(path.back())) << pointer;
    }
    if (path.back() == "0") continue;
    json without = good_;
    without[path.parent_pointer()].erase(path.back());
    EXPECT_NE(refusal(without), "") << "without " << pointer;
    document = good_;
    document[path.parent_pointer() / "unknown"] = 1;
    EXPECT_THAT(refusal(document), HasSubstr("unknown"));
  }
}

}  // namespace
}  // namespace zf
