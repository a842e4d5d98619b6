#include "plan/resolve_rank.hpp"

#include "launchers/local_rank.hpp"

namespace zf {

std::optional<EnvNumber> resolve_rank(std::size_t ranks, const Environment& environment) {
  if (auto found = local_rank(environment)) return found;
  if (ranks == 1) return EnvNumber{0, "the plan's only rank"};
  return std::nullopt;
}

}  // namespace zf
