#include "homes/share.hpp"

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "homes/index.hpp"

namespace zf {

void sort_near_to_far(const std::vector<Domain>& domains, std::optional<int> preference,
                      std::vector<Share>& shares) {
  const auto own = std::min_element(shares.begin(), shares.end(), [&](const Share& a, const Share& b) {
    const auto key = [&](const Share& s) { return std::tuple(preference != s.domain, -s.cores, s.domain); };
    return key(a) < key(b);
  });
  const int index = own->domain;
  const Domain& home = domains[at(index)];
  const auto distance = [&](const Share& s) {
    const Domain& domain = domains[at(s.domain)];
    return std::tuple(s.domain != index, domain.package != home.package, !in_same_node(domain, home),
                      std::abs(s.domain - index), s.domain);
  };
  std::sort(shares.begin(), shares.end(),
            [&](const Share& a, const Share& b) { return distance(a) < distance(b); });
}

}  // namespace zf
