#include "local/reading.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <thread>
#include <vector>

#include "local/local_stepper.hpp"

namespace zf {
namespace {

std::vector<Reading> readings_of(const std::vector<std::size_t>& sizes) {
  std::vector<Reading> readings;
  for (const std::size_t size : sizes) {
    readings.emplace_back().elements = size;
    readings.back().type = readings.size() % 2 == 0 ? ElementType::bf16 : ElementType::f32;
  }
  return readings;
}

TEST(TeamReading, PartsCoverEachArrayOnceAndSharesAreEqual) {
  for (const std::vector<std::size_t>& sizes : std::vector<std::vector<std::size_t>>{
           {}, {0}, {1}, {10'000'000}, {1, 0, 500'000, 3'000'001, 7}, std::vector<std::size_t>(1000, 5000)}) {
    const std::vector<Reading> readings = readings_of(sizes);
    std::size_t bytes = 0;
    for (const Reading& reading : readings) bytes += reading.bytes();
    for (const std::size_t members : {1U, 2U, 3U, 64U}) {
      Parts parts;
      cut(readings, members, parts);
      ASSERT_EQ(parts.members(), members);
      std::vector<std::size_t> covered(sizes.size(), 0);
      for (std::size_t member = 0; member < members; ++member) {
        std::size_t share = 0;
        for (const Part& part : parts.of_member(member)) {
          EXPECT_EQ(part.slice.begin, covered[part.tensor]);
          const std::size_t each = readings[part.tensor].bytes() / readings[part.tensor].elements;
          EXPECT_EQ(part.slice.begin * each % kReadPartBytes, 0U);
          EXPECT_TRUE(part.slice.size() > 0 && part.slice.size() * each <= kReadPartBytes);
          covered[part.tensor] = part.slice.end;
          share += part.slice.size() * each;
        }
        EXPECT_LE(share, bytes / members + 1 + kReadPartBytes);
      }
      EXPECT_EQ(covered, sizes);
    }
  }
}

/// Arrays of all kinds, with copies.
struct Arrays {
  explicit Arrays(const std::vector<std::size_t>& sizes) : readings(readings_of(sizes)) {
    std::uint32_t value = 1;
    for (Reading& reading : readings) {
      std::vector<float>& array = arrays.emplace_back(reading.elements);
      for (float& element : array) {  // also two numbers of bf16
        value = value * 1664525U + 1013904223U;
        element = std::bit_cast<float>(0x3f003f00U | (value >> 8 & 0x00ff00ffU));
      }
      copies.emplace_back(reading.elements);
      reading.array = array.data();
      reading.copy = copies.back().data();
    }
  }
  std::vector<std::vector<float>> arrays;
  std::vector<std::vector<float>> copies;
  std::vector<Reading> readings;
};

const std::vector<std::size_t> kSizes = {3'000'001, 0, 1, 1'000'000, 17, 131'072, 5000};

void expect_equal(const Arrays& a, const Arrays& b) {
  EXPECT_EQ(a.copies, b.copies);
  for (std::size_t i = 0; i < a.readings.size(); ++i) {
    EXPECT_EQ(a.readings[i].sum_of_squares, b.readings[i].sum_of_squares) << i;
    EXPECT_EQ(a.readings[i].digest, b.readings[i].digest) << i;
  }
}

TEST(TeamReading, AnyNumberOfThreadsFindsTheSame) {
  LocalStepper& stepper = LocalStepper::of_this_process();
  Arrays alone(kSizes);
  stepper.read_alone(alone.readings, {.norm = true, .digest = true});
  EXPECT_EQ(std::memcmp(alone.copies[0].data(), alone.arrays[0].data(), alone.readings[0].bytes()), 0);
  EXPECT_GT(alone.readings[0].sum_of_squares, 0.0);
  for (const Reading& reading : alone.readings) {  // as in one piece
    const auto whole = read_kernel(
        stepper.isa(), reading.type)({.array = reading.array, .n = reading.elements, .digest = true});
    EXPECT_EQ(reading.digest, digest_of(whole, reading.bytes()));
  }
  for (std::size_t threads = 1; threads <= 4; ++threads) {
    Arrays arrays(kSizes);
    stepper.read(arrays.readings, {.norm = true, .digest = true}, {.openmp = false, .threads = threads});
    expect_equal(arrays, alone);
  }
}

TEST(TeamReading, AloneItWaitsForNoOther) {
  // Helpers read while the calling thread of each reads alone.
  LocalStepper& stepper = LocalStepper::of_this_process();
  Arrays alone(kSizes);
  stepper.read_alone(alone.readings, {.norm = true, .digest = true});
  std::thread other([&] {
    Arrays arrays(kSizes);
    for (int i = 0; i < 5; ++i)
      stepper.read(arrays.readings, {.norm = true, .digest = true}, {.openmp = false, .threads = 2});
    expect_equal(arrays, alone);
  });
  Arrays arrays(kSizes);
  for (int i = 0; i < 5; ++i) stepper.read_alone(arrays.readings, {.norm = true, .digest = true});
  other.join();
  expect_equal(arrays, alone);
}

TEST(TeamReading, AForkedChildReads) {
  const TeamWish wish = {.openmp = false, .threads = 2};
  Arrays arrays(kSizes);
  LocalStepper::of_this_process().read(arrays.readings, {.norm = true, .digest = true}, wish);
  const ::pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(30);
    std::vector<Reading> again = arrays.readings;
    LocalStepper::of_this_process().read(again, {.digest = true}, wish);
    ::_exit(std::equal(again.begin(), again.end(), arrays.readings.begin(),
                       [](const Reading& a, const Reading& b) { return a.digest == b.digest; })
                ? 0
                : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace zf
