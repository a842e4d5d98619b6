// Ends the program in words if `ulimit -d` is too small to start it.
//
// oneTBB's initializer runs before main() and loads its allocator. Where that gets no memory, oneTBB 2022
// reads through a null pointer (Debian 13, limits of 448 KiB to 1.5 MiB). So this looks before any
// initializer of a library runs, and may therefore use nothing but system calls.
#include <unistd.h>

#include <string_view>

#include "base/address_space.hpp"
#include "base/error.hpp"

namespace {

/// oneTBB's allocator maps 2.3 MiB. With less than this, no command does anything.
constexpr std::size_t kStartBytes = std::size_t{4} << 20;

void need_data() {
  if (zf::limit_below(kStartBytes) != zf::MemoryLimit::data) return;
  constexpr std::string_view kText = "zf-tune: out of memory; raise ulimit -d\n";
  // If standard error is closed, the exit code is all that is said.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(static_cast<int>(zf::Exit::runtime_error));
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const kBeforeLibraries)() = need_data;

}  // namespace
