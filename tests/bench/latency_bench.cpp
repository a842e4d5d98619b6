// Measures the time of an empty step from submit to wait, next to that of a pipe and of a plain pair of
// semaphores.
//
// Run it as a trainer: zf-tune exec --plan plan.json -- latency_bench [rounds]. The peers behind the
// pipe and the semaphores run on the plan's first optimizer CPU. All are measured in turn, round after round.
//
// In a burst, the optimizer still spins (zf_options.spin_us) when the next submission comes. After a pause it
// sleeps, as with a trainer that submits once per step, and must be woken like the others.
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "os/affinity.hpp"
#include "os/standard_streams.hpp"
#include "zf_runtime.h"

namespace {

using namespace zf;

/// A forked process, bound to one CPU, that answers until it is killed.
class Peer {
 public:
  Peer(Pu pu, const std::function<void()>& answer_one) : pid_(checked(::fork(), "fork")) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    bind_this_thread({pu});
    for (;;) answer_one();
  }
  ~Peer() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

 private:
  pid_t pid_;
};

struct Semaphores {
  sem_t ask;
  sem_t answer;
};

Semaphores* shared_semaphores() {
  void* memory =
      ::mmap(nullptr, sizeof(Semaphores), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_errno(errno, "cannot map shared memory for two semaphores");
  auto* const pair = static_cast<Semaphores*>(memory);
  checked(::sem_init(&pair->ask, 1, 0), "sem_init");
  checked(::sem_init(&pair->answer, 1, 0), "sem_init");
  return pair;
}

void wait_for(sem_t& semaphore) {
  while (::sem_wait(&semaphore) != 0 && errno == EINTR) {
  }
}

void check(zf_status status) {
  if (status != ZF_OK)
    throw Error(Exit::runtime_error, format_text("{}: {}", zf_status_name(status), zf_last_error()));
}

void submit_step(zf_runtime* handle) {
  static constexpr zf_adam adam = ZF_ADAM_INIT;
  zf_scalars scalars = {};
  check(zf_adam_scalars(&adam, 1, &scalars));
  zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  args.scalars = &scalars;
  args.scalar_count = 1;
  check(zf_submit(handle, &args, nullptr));
}

/// Makes a runtime with `count` groups of `elements`, and steps once so that all memory is touched.
zf_runtime* open_runtime(std::size_t count, std::uint64_t elements) {
  zf_group group = ZF_GROUP_INIT;
  group.elements = elements;
  const std::vector<zf_group> groups(count, group);
  zf_runtime* handle = nullptr;
  check(zf_open(nullptr, groups.data(), groups.size(), &handle));
  submit_step(handle);
  check(zf_wait(handle, 0, -1));
  return handle;
}

struct Row {
  std::string name;
  std::function<void()> round_trip;
  bool after_pause = false;
  std::vector<Nanoseconds> samples = {};

  void measure_one() {
    const Nanoseconds start = now_ns();
    round_trip();
    samples.push_back(now_ns() - start);
  }
};

constexpr int kBurst = 20;                      // steps in a row, after one to warm up
constexpr int kPauses = 2;                      // per round
constexpr std::chrono::milliseconds kPause{2};  // 40 times as long as any side spins

void measure_round(Row& row) {
  row.round_trip();
  for (int i = 0; i < (row.after_pause ? kPauses : kBurst); ++i) {
    if (row.after_pause) std::this_thread::sleep_for(kPause);
    row.measure_one();
  }
}

std::function<void()> step_of(zf_runtime* handle) {
  return [handle] {
    submit_step(handle);
    check(zf_wait(handle, 0, -1));
  };
}

double us_at(std::vector<Nanoseconds>& samples, double quantile) {
  std::sort(samples.begin(), samples.end());
  return static_cast<double>(
             samples[static_cast<std::size_t>(quantile * static_cast<double>(samples.size() - 1))]) /
         1e3;
}

void run(int rounds) {
  const char* cpus = std::getenv("ZF_OPTIMIZER_CPUS");
  if (cpus == nullptr) {
    throw Error(Exit::usage, "latency_bench: ZF_OPTIMIZER_CPUS is not set",
                "run it as: zf-tune exec --plan plan.json -- latency_bench");
  }
  const Pu pu = parse_cpu_list(cpus, "ZF_OPTIMIZER_CPUS").first();

  std::array<int, 2> ask{};
  std::array<int, 2> answer{};
  checked(::pipe(ask.data()), "pipe");
  checked(::pipe(answer.data()), "pipe");
  const auto send = [](int to, int from) {
    char byte = 0;
    checked(::write(to, &byte, 1), "pipe");
    checked(::read(from, &byte, 1), "pipe");
  };
  const Peer pipe_peer(pu, [&] {
    char byte = 0;
    checked(::read(ask[0], &byte, 1), "pipe");
    checked(::write(answer[1], &byte, 1), "pipe");
  });
  Semaphores& semaphores = *shared_semaphores();
  const Peer semaphore_peer(pu, [&] {
    wait_for(semaphores.ask);
    ::sem_post(&semaphores.answer);
  });

  zf_runtime* const empty = open_runtime(1, 0);
  zf_runtime* const one_group = open_runtime(1, 65536);
  zf_runtime* const many_groups = open_runtime(16, 4096);
  const auto by_pipe = [&] { send(ask[1], answer[0]); };
  const auto by_semaphores = [&] {
    ::sem_post(&semaphores.ask);
    wait_for(semaphores.answer);
  };
  std::vector<Row> rows{{"empty step", step_of(empty)},
                        {"pipe, there and back", by_pipe},
                        {"semaphores, there and back", by_semaphores},
                        {"1 group of 64K", step_of(one_group)},
                        {"16 groups of 4K", step_of(many_groups)},
                        {"empty step after a pause", step_of(empty), true},
                        {"pipe after a pause", by_pipe, true},
                        {"semaphores after a pause", by_semaphores, true}};

  for (int round = 0; round < rounds; ++round) {
    for (Row& row : rows) measure_round(row);
  }
  for (zf_runtime* handle : {empty, one_group, many_groups}) check(zf_close(handle));

  print_stdout("{:28} {:>10} {:>10}\n", "", "p50 us", "p99 us");
  for (Row& row : rows)
    print_stdout("{:28} {:>10.2f} {:>10.2f}\n", row.name, us_at(row.samples, 0.5), us_at(row.samples, 0.99));
  print_stdout("16 groups of 4K against 1 of 64K: {:.2f} times the p50\n",
               us_at(rows[4].samples, 0.5) / us_at(rows[3].samples, 0.5));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? std::atoi(argv[1]) : 500);
    return 0;
  } catch (const Error& error) {
    print_stderr("{}\n", error.what());
    return static_cast<int>(error.exit());
  }
}
