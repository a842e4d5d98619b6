// Names a fault of a plan.
#pragma once

#include <string>

namespace zf {

/// A broken invariant: the field, such as "ranks[1].optimizer.cpus", and what is wrong with it.
struct Violation {
  std::string field;
  std::string what;
};

}  // namespace zf
