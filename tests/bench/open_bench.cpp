// Measures how long a user waits for the memory: zf_open, the trainer's first write, and zf_close.
//
// usage: open_bench [--gib=8] [--rounds=3] [--before=FOLDER]
//
// Each figure comes from a process of its own, and the rows take turns. FOLDER is the build folder of another
// version (with lib/libzf_runtime.so and bin/zf-optimizer), which is measured beside this one. The optimizer
// has one thread on each CPU that this process may use (ZF_TUNE=off). The row "kernel alone" does with a
// plain memfd what no library can avoid: as many threads populate it in a child, the parent maps it, and both
// go.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "os/affinity.hpp"
#include "os/standard_streams.hpp"
#include "rows.hpp"
#include "zf_runtime.h"

namespace {

using namespace zf;

constexpr double kGiB = static_cast<double>(std::uint64_t{1} << 30);
constexpr std::size_t kFigures = 5;
constexpr std::array<const char*, kFigures> kNames = {"open s", "first write s/GiB", "second s/GiB",
                                                      "close s", "huge GiB"};

class Stopwatch {
 public:
  /// Returns the seconds since the start or the last call.
  double lap() {
    const Nanoseconds now = now_ns();
    return static_cast<double>(now - std::exchange(since_, now)) * 1e-9;
  }

 private:
  Nanoseconds since_ = now_ns();
};

void print(const std::array<double, kFigures>& figures) {
  for (const double figure : figures) print_stdout("{} ", figure);
  print_stdout("\n");
}

/// Measures the runtime once: parameters, two gradient buffers and moments, 20 bytes per parameter. Writes
/// the parameters and the first gradients.
void measure_runtime(double gib, std::int32_t huge_pages) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* handle = nullptr;
  options.huge_pages = huge_pages;
  group.elements = static_cast<std::uint64_t>(gib * kGiB / 20);
  std::array<double, kFigures> figures{};
  Stopwatch watch;
  check(zf_open(&options, &group, 1, &handle));
  figures[0] = watch.lap();
  for (const std::size_t figure : {1U, 2U}) {
    watch.lap();
    double bytes_written = 0;
    for (const zf_buffer_kind kind : {ZF_PARAMS, ZF_GRADS_0}) {
      void* array = nullptr;
      std::size_t bytes = 0;
      check(zf_buffer(handle, 0, kind, &array, &bytes));
      std::memset(array, static_cast<int>(figure), bytes);
      bytes_written += static_cast<double>(bytes);
    }
    figures[figure] = watch.lap() * kGiB / bytes_written;
  }
  zf_stats stats = ZF_STATS_INIT;
  check(zf_get_stats(handle, &stats));
  figures[4] = static_cast<double>(stats.huge_bytes) / kGiB;
  watch.lap();
  check(zf_close(handle));
  figures[3] = watch.lap();
  print(figures);
}

std::byte* map_shared(int fd, std::size_t bytes) {
  void* const start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (start == MAP_FAILED) throw_errno(errno, "mmap");
  return static_cast<std::byte*>(start);
}

void populate(std::byte* begin, std::size_t bytes) {
  constexpr int populate_write = 23;  // MADV_POPULATE_WRITE
  checked(::madvise(begin, bytes, populate_write), "madvise");
}

/// Measures what the kernel needs for pages of 4 KiB that one process allocates, another writes in part, and
/// both give back.
void measure_kernel(double gib) {
  const auto bytes = static_cast<std::size_t>(gib * kGiB / 4096) * 4096;
  const std::size_t threads = thread_affinity().size();
  std::array<double, kFigures> figures{};
  const int fd = checked(::memfd_create("open_bench", MFD_CLOEXEC), "memfd_create");
  checked(::ftruncate(fd, static_cast<off_t>(bytes)), "ftruncate");
  std::array<int, 2> ready{};
  checked(::pipe(ready.data()), "pipe");
  Stopwatch watch;
  const pid_t child = checked(::fork(), "fork");
  if (child == 0) {
    std::byte* const start = map_shared(fd, bytes);
    std::vector<std::thread> populating;
    const std::size_t share = bytes / threads / 4096 * 4096;
    for (std::size_t i = 0; i < threads; ++i) {
      const std::size_t begin = i * share;
      populating.emplace_back([=] { populate(start + begin, i + 1 == threads ? bytes - begin : share); });
    }
    for (std::thread& thread : populating) thread.join();
    checked(::write(ready[1], "x", 1), "write");
    for (;;) ::pause();
  }
  char byte = 0;
  checked(::read(ready[0], &byte, 1), "read");
  figures[0] = watch.lap();
  std::byte* const start = map_shared(fd, bytes);
  const std::size_t written = bytes / 5 * 2;
  for (const std::size_t figure : {1U, 2U}) {
    watch.lap();
    std::memset(start, static_cast<int>(figure), written);
    figures[figure] = watch.lap() * kGiB / static_cast<double>(written);
  }
  ::kill(child, SIGKILL);
  checked(::waitpid(child, nullptr, 0), "waitpid");
  ::munmap(start, bytes);
  ::close(fd);
  figures[3] = watch.lap();
  print(figures);
}

/// Returns false where the kernel gives no huge pages to shared memory. The rows would be equal there.
bool has_huge_pages() {
  std::string setting;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/shmem_enabled"), setting);
  return !setting.empty() && setting.find("[never]") == std::string::npos &&
         setting.find("[deny]") == std::string::npos;
}

void run(double gib, int rounds, const std::string& before, const std::string& self) {
  std::vector<Row> rows;
  const auto add = [&](const std::string& name, const std::string& words, const std::string& folder = "") {
    rows.push_back(
        {name, format_text("{}ZF_TUNE=off '{}' --gib={} {}", variables_for(folder), self, gib, words), {}});
    rows.back().samples.resize(kFigures);
  };
  if (!before.empty()) add("before, 4 KiB pages", "--once=no", before);
  add("4 KiB pages", "--once=no");
  if (has_huge_pages()) {
    if (!before.empty()) add("before, huge pages", "--once=try", before);
    add("huge pages", "--once=try");
  }
  add("kernel alone, 4 KiB", "--once=kernel");
  measure(rows, rounds);
  print_stdout("{:.1f} GiB, {} CPUs, medians of {} rounds (least to most)\n\n| |", gib,
               thread_affinity().size(), rounds);
  for (const char* name : kNames) print_stdout(" {} |", name);
  print_stdout("\n| --- | --- | --- | --- | --- | --- |\n");
  for (const Row& row : rows) {
    print_stdout("| {} |", row.name);
    for (const std::vector<double>& samples : row.samples) {
      const auto [middle, least, most] = spread_of(samples);
      print_stdout(" {:.2f} ({:.2f} to {:.2f}) |", middle, least, most);
    }
    print_stdout("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    double gib = 8;
    int rounds = 3;
    std::string before;
    std::string once;
    for (int i = 1; i < argc; ++i) {
      const std::string_view word = argv[i];
      const std::string value(word.substr(std::min(word.find('='), word.size() - 1) + 1));
      if (word.starts_with("--gib=")) {
        gib = std::atof(value.c_str());
      } else if (word.starts_with("--rounds=")) {
        rounds = std::atoi(value.c_str());
      } else if (word.starts_with("--before=")) {
        before = value;
      } else if (word.starts_with("--once=")) {
        once = value;
      } else {
        throw Error(Exit::usage, format_text("open_bench: unknown argument \"{}\"", word),
                    "usage: open_bench [--gib=8] [--rounds=3] [--before=FOLDER]");
      }
    }
    if (once == "kernel") {
      measure_kernel(gib);
    } else if (!once.empty()) {
      measure_runtime(gib, once == "no" ? ZF_NO : ZF_TRY);
    } else {
      run(gib, std::max(1, rounds), before, std::filesystem::read_symlink("/proc/self/exe").string());
    }
    return 0;
  } catch (const std::exception& error) {
    print_stderr("{}\n", error.what());
    return 1;
  }
}
