// Measures what an export beside the training costs the steps, and how long it takes.
//
// usage: export_bench [--params=N] [--rounds=3] [--iterations=30] [--pause-ms=T] [--format=0..3] [--room=MIB]
//                     [--folder=/tmp] [--prepared] [--before=FOLDER]
//
// Each round is a process of its own: steps back to back, two exports among them, one of zf_export_state, and
// iterations with an export and without one in turn. An iteration sleeps for T ms, as a trainer that uses a
// GPU, and steps. All ratios are to the median of the steps, iterations or exports of the same round.
// --prepared: zf_options.export_room. FOLDER is the build folder of another version (with
// lib/libzf_runtime.so and bin/zf-optimizer), which is measured beside this one. The optimizer has one thread
// on each CPU that this process may use (ZF_TUNE=off).
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "os/standard_streams.hpp"
#include "rows.hpp"
#include "zf_runtime.h"

namespace {

using namespace zf;

constexpr std::array kNames = {"open s",
                               "step s",
                               "zf_export_state s",
                               "first zf_export_begin s",
                               "first export: the step that copies / step",
                               "first export: later steps / step",
                               "first export / zf_export_state",
                               "next export: the step that copies / step",
                               "next export: later steps / step",
                               "next export / zf_export_state",
                               "iteration s",
                               "iterations with an export / without",
                               "next export beside iterations / zf_export_state"};
using Figures = std::array<double, kNames.size()>;

struct Job {
  std::uint64_t params = 200'000'000;
  int iterations = 30;
  int pause_ms = 0;
  int format = ZF_STATE_FP32;
  bool prepared = false;
  std::string folder = "/tmp";
};

/// Returns the seconds that the call takes.
template <class Call>
double seconds_of(Call call) {
  const Nanoseconds begin = now_ns();
  call();
  return static_cast<double>(now_ns() - begin) * 1e-9;
}

class Trainer {
 public:
  explicit Trainer(const Job& job)
      : job_(job), path_(job.folder + format_text("/export_bench.{}", getpid())) {
    zf_options options = ZF_OPTIONS_INIT;
    zf_group group = ZF_GROUP_INIT;
    if (job.prepared) options.export_room = 1;
    group.elements = job.params;
    group.state_format = job.format;
    group.copy_type = ZF_BF16;
    group.grad_buffers = 1;
    check(zf_open(&options, &group, 1, &handle_));
    fill_gradients();
  }
  ~Trainer() {
    zf_close(handle_);
    std::filesystem::remove(path_);
  }
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  double step() {
    return seconds_of([&] {
      static constexpr zf_adam adam = ZF_ADAM_INIT;
      zf_scalars scalars = {};
      check(zf_adam_scalars(&adam, ++steps_, &scalars));
      zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
      args.scalars = &scalars;
      args.scalar_count = 1;
      check(zf_submit(handle_, &args, nullptr));
      check(zf_wait(handle_, 0, -1));
    });
  }
  double iteration() {
    return seconds_of([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(job_.pause_ms));
      step();
    });
  }
  void begin() { check(zf_export_begin(handle_, path_.c_str())); }
  bool is_exported() {
    const zf_status status = zf_export_wait(handle_, 0);
    if (status != ZF_TIMEOUT) check(status);
    return status == ZF_OK;
  }
  void wait() { check(zf_export_wait(handle_, -1)); }
  void export_state() { check(zf_export_state(handle_, path_.c_str())); }

 private:
  /// Lets steps write no zeros: those go to memory twice as fast (50 GB/s, not 23, on an AMD EPYC).
  void fill_gradients() {
    void* array = nullptr;
    std::size_t bytes = 0;
    check(zf_buffer(handle_, 0, ZF_GRADS_0, &array, &bytes));
    const std::span<float> values(static_cast<float*>(array), bytes / sizeof(float));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1e-3F * static_cast<float>(1 + i % 251);
  }

  const Job& job_;
  const std::string path_;
  zf_runtime* handle_ = nullptr;
  std::uint64_t steps_ = 0;
};

/// Steps beside an export, back to back: what begin() takes, the step that copies, later ones, and all of it.
std::array<double, 4> steps_beside_an_export(Trainer& trainer) {
  std::array<double, 4> found{};
  found[3] = seconds_of([&] {
    found[0] = seconds_of([&] { trainer.begin(); });
    found[1] = trainer.step();
    std::vector<double> later;
    while (!trainer.is_exported() && later.size() < 40) later.push_back(trainer.step());
    if (!later.empty()) found[2] = median(later);
    trainer.wait();
  });
  return found;
}

Figures measure(const Job& job) {
  Figures figures{};
  std::size_t at = 0;
  Nanoseconds begin = now_ns();
  Trainer trainer(job);
  figures[at++] = static_cast<double>(now_ns() - begin) * 1e-9;
  for (int i = 0; i < 3; ++i) trainer.step();
  std::vector<double> steps;
  for (int i = 0; i < 11; ++i) steps.push_back(trainer.step());
  trainer.export_state();  // the first one gets the pages of the file
  const double blocking = seconds_of([&] { trainer.export_state(); });
  for (int i = 0; i < 10; ++i) steps.push_back(trainer.step());
  const double step = median(steps);
  figures[at++] = step;
  figures[at++] = blocking;
  for (const bool is_first : {true, false}) {
    const auto [begun, copying, later, all] = steps_beside_an_export(trainer);
    if (is_first) figures[at++] = begun;
    figures[at++] = copying / step;
    figures[at++] = later / step;
    figures[at++] = all / blocking;
    for (int i = 0; i < 3; ++i) trainer.step();
  }
  if (job.iterations != 0) {
    const auto iterate = [&] {
      double sum = 0;
      for (int i = 0; i < job.iterations; ++i) sum += trainer.iteration();
      return sum / job.iterations;
    };
    std::vector<double> with, without, exported;
    for (int turn = 0; turn < 3; ++turn) {
      without.push_back(iterate());
      begin = now_ns();
      with.push_back(seconds_of([&] { trainer.begin(); }) / job.iterations + iterate());
      trainer.wait();
      exported.push_back(static_cast<double>(now_ns() - begin) * 1e-9);
    }
    figures[at++] = median(without);
    figures[at++] = median(with) / median(without);
    figures[at++] = median(exported) / blocking;
  }
  return figures;
}

void run(int rounds, const std::string& before, const std::string& room, const std::string& command) {
  std::vector<Row> rows;
  const std::string variables = "ZF_TUNE=off " + (room.empty() ? "" : "ZF_EXPORT_MIB=" + room + " ");
  const auto add = [&](const char* name, const std::string& folder) {
    rows.push_back({name, variables + variables_for(folder) + command, {}});
    rows.back().samples.resize(kNames.size());
  };
  if (!before.empty()) add("before", before);
  add("now", "");
  measure(rows, rounds);
  print_stdout("Medians of {} rounds (least to most)\n\n| |", rounds);
  for (const Row& row : rows) print_stdout(" {} |", row.name);
  print_stdout("\n| --- |");
  for (std::size_t i = 0; i < rows.size(); ++i) print_stdout(" --- |");
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    print_stdout("\n| {} |", kNames[i]);
    for (const Row& row : rows) {
      const auto [middle, least, most] = spread_of(row.samples[i]);
      print_stdout(" {:.3g} ({:.3g} to {:.3g}) |", middle, least, most);
    }
  }
  print_stdout("\n");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Job job;
    int rounds = 3;
    std::string before, room;
    bool once = false;
    std::string command =
        format_text("'{}' --once", std::filesystem::read_symlink("/proc/self/exe").string());
    for (int i = 1; i < argc; ++i) {
      const std::string_view word = argv[i];
      const std::string value(word.substr(std::min(word.find('='), word.size() - 1) + 1));
      const bool is_of_the_job =
          !word.starts_with("--rounds=") && !word.starts_with("--before=") && !word.starts_with("--room=");
      if (is_of_the_job) command += format_text(" '{}'", word);
      if (word.starts_with("--params=")) {
        job.params = std::strtoull(value.c_str(), nullptr, 10);
      } else if (word.starts_with("--rounds=")) {
        rounds = std::max(1, std::atoi(value.c_str()));
      } else if (word.starts_with("--iterations=")) {
        job.iterations = std::atoi(value.c_str());
      } else if (word.starts_with("--pause-ms=")) {
        job.pause_ms = std::atoi(value.c_str());
      } else if (word.starts_with("--format=")) {
        job.format = std::atoi(value.c_str());
      } else if (word.starts_with("--room=")) {
        room = value;
      } else if (word.starts_with("--folder=")) {
        job.folder = value;
      } else if (word == "--prepared") {
        job.prepared = true;
      } else if (word.starts_with("--before=")) {
        before = value;
      } else if (word == "--once") {
        once = true;
      } else {
        throw Error(Exit::usage, format_text("export_bench: unknown argument \"{}\"", word),
                    "the comment at the top of export_bench.cpp says which there are");
      }
    }
    if (once) {
      for (const double figure : measure(job)) print_stdout("{} ", figure);
    } else {
      run(rounds, before, room, command);
    }
    return 0;
  } catch (const std::exception& error) {
    print_stderr("{}\n", error.what());
    return 1;
  }
}
