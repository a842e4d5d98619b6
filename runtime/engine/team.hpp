// A team of threads that does one piece of work together. The calling thread is one of them.
#pragma once

#include <cstddef>
#include <type_traits>

namespace zf {

/// One thread at a time uses a team.
class Team {
 public:
  Team() = default;
  virtual ~Team() = default;
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// Returns how many members the next run of the calling thread asks for; at least 1.
  virtual std::size_t size() const = 0;

  /// Calls work(member, members) on every member at the same time, and returns when all calls have returned.
  /// `members` is how many there really are, which may differ from size(): work that is dealt to size()
  /// members is done if member i takes the shares i, i + members, ... `work` must not throw.
  template <class Work>
  void run(Work&& work) {
    using Plain = std::remove_reference_t<Work>;
    run_erased([](void* context, std::size_t member,
                  std::size_t members) { (*static_cast<Plain*>(context))(member, members); },
               const_cast<void*>(static_cast<const void*>(&work)));
  }

 protected:
  using Erased = void (*)(void* context, std::size_t member, std::size_t members);

 private:
  virtual void run_erased(Erased work, void* context) noexcept = 0;
};

/// The calling thread alone.
class CallerAlone final : public Team {
 public:
  std::size_t size() const override { return 1; }

 private:
  void run_erased(Erased work, void* context) noexcept override { work(context, 0, 1); }
};

}  // namespace zf
