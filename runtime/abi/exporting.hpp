// Copies the state beside the training, and writes the copy to a state file.
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
#include "os/environment.hpp"

namespace zf {

/// Returns how many bytes a copy of an image of the state takes at most: whole units, or what ZF_EXPORT_MIB
/// says. Throws Error(usage) if that is malformed.
std::uint64_t most_room_for_saving(std::uint64_t image_bytes, const Environment& environment);

/// Throws AbiError(ZF_ERROR_SYSTEM) if limits of this process leave no room for a copy of the arena.
void check_saved_area(const Arena& arena);

/// Returns how many bytes a copy of the state may take beside the arena: `most`, or what memory has room
/// for, which is at least what the last copy took. Throws AbiError(ZF_ERROR_SYSTEM) if that is too little to
/// copy anything.
std::uint64_t room_for_saving(const Arena& arena, const Allowed& allowed, std::uint64_t most);

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

  /// Starts a thread that writes the copy of the state to the file while it is made. The memory stays for the
  /// next one: to get it takes longer than to fill it. Throws as check_idle(), and what submit() throws. One
  /// call at a time. submit: submits the save and returns its ticket. is_lost: returns whether no worker will
  /// do it.
  void begin(std::unique_ptr<AtomicFile> file, const std::filesystem::path& path,
             const std::function<std::uint64_t()>& submit, std::function<bool()> is_lost);

  /// Makes a copy of the state that stays until release(): an export without a file. Throws as begin().
  void hold(const std::function<std::uint64_t()>& submit, std::function<bool()> is_lost);
  /// Waits until that copy is made. Returns false at the deadline. Throws AbiError if none will be.
  bool wait_held(Nanoseconds deadline);
  /// Returns the place of an array in that copy. Throws AbiError(ZF_ERROR_USAGE) if none is held.
  ArrayPlace held(const GroupBlock& group, ArrayKind kind);
  /// Lets the next one have the memory of that copy, if there is one. Waits until the worker writes no more
  /// of it. Returns false at the deadline: the copy is given up, and check_idle() frees it when the worker
  /// answers.
  bool release(Nanoseconds deadline);

  /// Waits until the export has ended. Returns false at the deadline. Throws what it failed with, once.
  bool wait(Nanoseconds deadline);

  /// Waits until no step waits for the export's file. Gives the export up at the deadline.
  void let_steps_go(Nanoseconds deadline);
  /// Gives the export up unless it ends until the deadline. Then throws AbiError(ZF_TIMEOUT), and otherwise
  /// as wait().
  void finish(Nanoseconds deadline);

 private:
  /// Runs in the thread.
  void run(const std::stop_token& given_up, std::unique_ptr<AtomicFile> file,
           const std::function<bool()>& is_lost);
  /// Returns whether there is less room than the whole copy needs. Then steps wait for the file.
  bool goes_in_rounds() const;
  /// Gives the save up for the worker, if it is not done, and waits until the worker writes no more of it.
  /// Then frees a copy that has not got all its memory, so that the next one takes only what there is.
  void stop_saving(const std::stop_token& given_up, std::uint64_t ticket,
                   const std::function<bool()>& is_lost) const;
  void drop_copy(std::uint64_t ticket) const;
  /// Frees what release() has given up if the worker writes no more of it. Returns whether it is free. The
  /// caller holds mutex_.
  bool free_given_up();
  bool is_done(std::uint64_t ticket) const;
  /// Throws AbiError if the copy will never be whole. is_there: returns whether enough of it is.
  void check_saving(const std::function<bool()>& is_there, const std::function<bool()>& is_lost) const;

  const Arena& arena_;
  std::mutex mutex_;  ///< protects what follows
  std::condition_variable ended_;
  bool is_running_ = false;
  enum class Hold { none, held, given_up } hold_ = Hold::none;
  std::function<bool()> is_lost_;  ///< of what is held
  std::uint64_t ticket_ = 0;       ///< of the saving
  std::exception_ptr failure_;
  std::filesystem::path path_;
  std::jthread thread_;
};

}  // namespace zf
