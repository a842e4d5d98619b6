// Tests that every field of the workloads that the ranks of one job wrote is joined.
#include <gtest/gtest.h>

#include <string_view>

#include "measure/workload_file.hpp"
#include "plan/workload_fields.hpp"

namespace zf {
namespace {

/// The io of fields() that makes one figure larger: that of the field after `before` others.
class OneLarger {
 public:
  explicit OneLarger(int before) : left_(before) {}

  template <class Value, class... Rules>
  void required(std::string_view key, Value& figure, const Rules&...) {
    if (left_-- != 0) return;
    key_ = key;
    if constexpr (kIsOptional<Value>) {
      *figure += *figure / 2;
    } else {
      figure += 1000;
    }
  }
  template <class Value, class... Rules>
  void optional(std::string_view key, Value& figure, const Rules&...) {
    required(key, figure);
  }

  std::string_view key() const { return key_; }  ///< empty: there are not so many

 private:
  int left_;
  std::string_view key_;
};

TEST(JoinedRanks, EachFigureOfTrainingIsThatOfTheSlowestRank) {
  WorkloadFile rank;
  rank.workload.training = TrainingDemand{1, 2, 3, 4, 5, 6, 7, 0.25, 8};
  for (int i = 0;; ++i) {
    WorkloadFile other = rank;
    OneLarger io(i);
    fields(io, *other.workload.training);
    if (io.key().empty()) {
      EXPECT_GE(i, 9);
      break;
    }
    // The copies of the slowest rank have the lowest rate.
    const WorkloadFile& slowest = io.key() == "copy_bytes_per_s" ? rank : other;
    for (const auto& ranks : {std::vector{rank, other}, std::vector{other, rank}})
      EXPECT_EQ(joined_ranks(ranks).workload.training, slowest.workload.training) << io.key();
  }
}

}  // namespace
}  // namespace zf
