#include "homes/home_scale.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <set>

#include "homes/index.hpp"

namespace zf {
namespace {

/// Returns the steps between the makes and then those between the kinds of one make, the fastest first. Every
/// core is at least of the slowest, so that is no step.
std::vector<HomeNumber> steps_of(const std::vector<CoreBatch>& batches) {
  std::set<int, std::greater<>> makes;
  std::set<int, std::greater<>> kinds;
  for (const CoreBatch& batch : batches) makes.insert(batch.make);
  for (const CoreBatch& batch : batches) {
    if (std::any_of(batches.begin(), batches.end(), [&](const CoreBatch& other) {
          return other.make == batch.make && other.kind < batch.kind;
        }))
      kinds.insert(batch.kind);
  }
  if (!makes.empty()) makes.erase(std::prev(makes.end()));
  std::vector<HomeNumber> steps;
  for (const int make : makes) steps.push_back({HomePoint::fast_makes, make});
  for (const int kind : kinds) steps.push_back({HomePoint::fast_today, kind});
  return steps;
}

/// Returns how many of these parts `cores` cores need at least.
int fewest_parts(std::vector<int> sizes, int cores) {
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  int parts = 0;
  for (; cores > 0 && at(parts) < sizes.size(); ++parts) cores -= sizes[at(parts)];
  return parts;
}

/// Changes the cores that a home has of a part, and how many parts it has cores of.
void change(int& cores_of_part, int& parts, int cores) {
  const bool had = cores_of_part > 0;
  cores_of_part += cores;
  parts += static_cast<int>(cores_of_part > 0) - static_cast<int>(had);
}

template <class Number>
std::size_t how_many(const std::vector<CoreBatch>& batches, Number number) {
  int most = -1;
  for (const CoreBatch& batch : batches) most = std::max(most, number(batch));
  return at(most + 1);
}

}  // namespace

HomeScale::HomeScale(const Domains& domains)
    : domains_(domains),
      even_share_(static_cast<int>(domains.cores.size()) / domains.ranks()),
      steps_(steps_of(domains.batches)) {
  for (std::size_t i = 0; i < kHomePoints.size(); ++i) {
    const auto point = static_cast<HomePoint>(i);
    if (point != HomePoint::fast_makes && point != HomePoint::fast_today) numbers_.push_back({point});
    for (const HomeNumber& step : steps_) {
      if (step.point == point) numbers_.push_back(step);
    }
  }
  for (const HomeNumber& number : numbers_) step_of_number_.push_back(step_of(number));
  for (int batch = 0; batch < static_cast<int>(domains.batches.size()); ++batch) {
    std::vector<int>& own = steps_of_batch_.emplace_back();
    for (int step = 0; step < static_cast<int>(steps_.size()); ++step) {
      if (is_of_step(step, batch)) own.push_back(step);
    }
  }
  for (int rank = 0; rank < domains.ranks(); ++rank) {
    has_near_.push_back(domains.has_near(rank));
    std::vector<Place>& places = places_.emplace_back();
    for (const CoreBatch& batch : domains.batches) {
      const bool has_place = !domains.near[at(rank)].empty();
      places.push_back({has_place && domains.near[at(rank)][at(batch.domain)],
                        has_place && domains.in_package[at(rank)][at(batch.domain)]});
    }
    all_ = nothing();
    for (int batch = 0; batch < static_cast<int>(domains.batches.size()); ++batch)
      add(all_, rank, batch, static_cast<int>(domains.batches[at(batch)].cores.size()));
    near_gpu_.push_back(all_.near_gpu);
    in_package_.push_back(all_.in_package);
  }
}

HomeCount HomeScale::nothing() const {
  HomeCount count;
  count.of_node.resize(how_many(domains_.batches, [](const CoreBatch& b) { return b.node; }));
  count.of_package.resize(how_many(domains_.batches, [](const CoreBatch& b) { return b.package; }));
  count.of_l3.resize(how_many(domains_.batches, [](const CoreBatch& b) { return b.l3; }));
  count.fast.resize(steps_.size());
  return count;
}

HomeCount HomeScale::count_of(int rank, const std::vector<int>& cores) const {
  HomeCount count = nothing();
  for (const int core : cores) add(count, rank, domains_.batch_of[at(core)], 1);
  return count;
}

void HomeScale::add(HomeCount& count, int rank, int batch, int cores) const {
  const CoreBatch& own = domains_.batches[at(batch)];
  const Place& place = places_[at(rank)][at(batch)];
  count.cores += cores;
  count.near_gpu += place.is_near * cores;
  count.in_package += place.is_in_package * cores;
  count.closeness +=
      cores * (2 * (count.of_node[at(own.node)] + count.of_package[at(own.package)]) + 2 * cores);
  change(count.of_node[at(own.node)], count.nodes, cores);
  change(count.of_package[at(own.package)], count.packages, cores);
  if (own.l3 >= 0) change(count.of_l3[at(own.l3)], count.l3_groups, cores);
  for (const int step : steps_of_batch_[at(batch)]) count.fast[at(step)] += cores;
}

int HomeScale::number(std::size_t index, const HomeCount& count, int rank) const {
  switch (numbers_[index].point) {
    case HomePoint::near_gpu:
      return has_near_[at(rank)] == 0 ? 0 : -std::min(count.near_gpu, even_share_);
    case HomePoint::gpu_package:
      return -std::min(count.in_package, even_share_);
    case HomePoint::nodes:
      return count.nodes;
    case HomePoint::packages:
      return count.packages;
    case HomePoint::sizes:
      return -count.cores;
    case HomePoint::fast_makes:
    case HomePoint::fast_today:
      return -count.fast[at(step_of_number_[index])];
    case HomePoint::l3_groups:
      break;
  }
  return count.l3_groups;
}

bool HomeScale::is_of_step(int step, int batch) const {
  const auto& [point, level] = steps_[at(step)];
  const CoreBatch& own = domains_.batches[at(batch)];
  return (point == HomePoint::fast_makes ? own.make : own.kind) >= level;
}

void HomeScale::write(const HomeCount& count, int rank, std::vector<int>& numbers) const {
  numbers.resize(numbers_.size());
  for (std::size_t i = 0; i < numbers_.size(); ++i) numbers[i] = number(i, count, rank);
}

int HomeScale::step_of(const HomeNumber& number) const {
  const auto step = std::find_if(steps_.begin(), steps_.end(), [&](const HomeNumber& own) {
    return own.point == number.point && own.level == number.level;
  });
  return static_cast<int>(step - steps_.begin());
}

bool HomeScale::counts_for(HomePoint point, int rank) const {
  const auto has_step = [&] {
    return std::any_of(steps_.begin(), steps_.end(), [&](const HomeNumber& s) { return s.point == point; });
  };
  switch (point) {
    case HomePoint::near_gpu:
      return has_near_[at(rank)];
    case HomePoint::gpu_package:
      return !domains_.near[at(rank)].empty();
    case HomePoint::nodes:
      return std::any_of(domains_.all.begin(), domains_.all.end(),
                         [](const Domain& domain) { return domain.node.has_value(); });
    case HomePoint::l3_groups:
      return !all_.of_l3.empty();
    case HomePoint::fast_makes:
    case HomePoint::fast_today:
      return has_step();
    case HomePoint::packages:
    case HomePoint::sizes:
      break;
  }
  return true;
}

int HomeScale::best_alone(const HomeNumber& number, int rank, int cores) const {
  switch (number.point) {
    case HomePoint::near_gpu:
      return has_near_[at(rank)] ? -std::min({cores, near_gpu_[at(rank)], even_share_}) : 0;
    case HomePoint::gpu_package:
      return -std::min({cores, in_package_[at(rank)], even_share_});
    case HomePoint::nodes:
      return fewest_parts(all_.of_node, cores);
    case HomePoint::packages:
      return fewest_parts(all_.of_package, cores);
    case HomePoint::sizes:
      return -even_share_;
    case HomePoint::fast_makes:
    case HomePoint::fast_today:
      return -std::min(cores, all_.fast[at(step_of(number))] / domains_.ranks());
    case HomePoint::l3_groups:
      break;
  }
  const int in_groups = std::accumulate(all_.of_l3.begin(), all_.of_l3.end(), 0);
  return fewest_parts(all_.of_l3, cores - (all_.cores - in_groups));
}

}  // namespace zf
