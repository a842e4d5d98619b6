#include "abi/prefault.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "base/signals_blocked.hpp"

namespace zf {
namespace {

/// While the kernel maps a piece, no other thread of the trainer can map or unmap memory.
constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;

/// In the order in which a program that has just opened the runtime writes them.
constexpr std::array kWrittenFirst = {ArrayKind::params, ArrayKind::grads0, ArrayKind::grads1,
                                      ArrayKind::copy, ArrayKind::stale};

}  // namespace

Prefault::Prefault(const Arena& arena) : arena_(arena) {
  const SignalsBlocked blocked;  // the trainer's signal handlers run on the trainer's own threads
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    // The first touch of each page then takes its fault.
  }
}

Prefault::~Prefault() {
  stopping_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

void Prefault::run() const noexcept {
  pthread_setname_np(pthread_self(), "zf-prefault");
  for (const ArrayKind kind : kWrittenFirst) {
    for (std::size_t i = 0; i < arena_.control().group_count; ++i) map(arena_.group(i).place(kind));
  }
}

void Prefault::map(const ArrayPlace& array) const noexcept {
  for (std::uint64_t at = 0; at < array.bytes; at += kPieceBytes) {
    if (stopping_.load(std::memory_order_relaxed)) return;
    arena_.map_reserved(array.offset + at, std::min(kPieceBytes, array.bytes - at));
  }
}

}  // namespace zf
