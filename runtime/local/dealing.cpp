#include "local/dealing.hpp"

#include <sched.h>

namespace zf {

int node_of_this_thread() {
  unsigned cpu = 0;
  unsigned node = 0;
  return ::getcpu(&cpu, &node) == 0 ? static_cast<int>(node) : kUnknownNode;
}

void Dealing::deal(const Parts& parts) {
  if (parts.members() > capacity_) {
    shares_ = std::make_unique<Share[]>(parts.members());
    capacity_ = parts.members();
  }
  for (std::size_t i = 0; i < parts.members(); ++i) {
    shares_[i].next.store(parts.first_of_member[i], std::memory_order_relaxed);
  }
  parts_ = &parts;
  stolen_.store(0, std::memory_order_relaxed);
}

}  // namespace zf
