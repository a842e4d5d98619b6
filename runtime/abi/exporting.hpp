// Writes a copy of the state to a state file beside the training.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.hpp"
#include "ipc/arena.hpp"
#include "os/allowed.hpp"
#include "os/atomic_file.hpp"

namespace zf {

/// Throws AbiError(ZF_ERROR_SYSTEM) if memory has no room for a copy of the state beside the arena.
void check_room_for_saving(const Arena& arena, const Allowed& allowed);

/// At most one export at a time. Thread-safe.
class Exporting {
 public:
  explicit Exporting(const Arena& arena) : arena_(arena) {}
  /// Gives up the export that is under way.
  ~Exporting();
  Exporting(const Exporting&) = delete;
  Exporting& operator=(const Exporting&) = delete;

  /// Throws AbiError(ZF_ERROR_BUSY) if an export is under way, and once what the last one failed with.
  void check_idle();

  /// Starts a thread that waits for the copy of the state, writes it to the file, and frees its memory.
  /// Throws as check_idle(), and what submit() throws. One call at a time. submit: submits the save and
  /// returns its ticket. is_lost: returns whether no worker will do it.
  void begin(std::unique_ptr<AtomicFile> file, const std::filesystem::path& path,
             const std::function<std::uint64_t()>& submit, std::function<bool()> is_lost);

  /// Waits until the export has ended. Returns false at the deadline. Throws what it failed with, once.
  bool wait(Nanoseconds deadline);

  /// Gives the export up unless it ends until the deadline. Then throws AbiError(ZF_TIMEOUT), and otherwise
  /// as wait().
  void finish(Nanoseconds deadline, Nanoseconds timeout);

 private:
  /// Runs in the thread.
  void run(const std::stop_token& given_up, std::unique_ptr<AtomicFile> file,
           const std::function<bool()>& is_lost);
  void write(const std::stop_token& given_up, AtomicFile& file, std::uint64_t ticket,
             const std::function<bool()>& is_lost) const;

  const Arena& arena_;
  std::mutex mutex_;  ///< protects what follows
  std::condition_variable ended_;
  bool is_running_ = false;
  std::uint64_t ticket_ = 0;  ///< of the saving
  std::exception_ptr failure_;
  std::filesystem::path path_;
  std::jthread thread_;
};

}  // namespace zf
