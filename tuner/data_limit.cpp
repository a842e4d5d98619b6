// Ends the program in words if `ulimit -v` or `ulimit -d` is too small to start it.
//
// libnuma's initializer ends the process in words of its own where it gets no memory. oneTBB's runs before
// main() and loads its allocator: where that gets no memory, oneTBB 2022 reads through a null pointer
// (Debian 13, limits of 448 KiB to 1.5 MiB). So this looks before any initializer of a library runs, and may
// therefore use nothing but system calls.
#include <unistd.h>

#include <string_view>

#include "base/address_space.hpp"
#include "base/error.hpp"

namespace {

/// oneTBB's allocator maps 2.3 MiB. With less than this, no command does anything.
constexpr std::size_t kStartBytes = std::size_t{4} << 20;

void need_memory() {
  const zf::MemoryLimit limit = zf::limit_below(kStartBytes);
  if (limit == zf::MemoryLimit::none) return;
  const std::string_view text = limit == zf::MemoryLimit::data ? "zf-tune: out of memory; raise ulimit -d\n"
                                                               : "zf-tune: out of memory; raise ulimit -v\n";
  // If standard error is closed, the exit code is all that is said.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(static_cast<int>(zf::Exit::runtime_error));
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const kBeforeLibraries)() = need_memory;

}  // namespace
