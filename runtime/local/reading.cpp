#include "local/reading.hpp"

#include <algorithm>
#include <cassert>
#include <memory>
#include <vector>

namespace zf {
namespace {

std::size_t bytes_of_element(const Reading& reading) { return reading.type == ElementType::f32 ? 4 : 2; }

/// Reads elements [slice.begin, slice.end) of an array, and returns the share of the digest.
std::uint64_t read_part(const Reading& reading, const Slice& slice, const ReadWish& wish, ReadKernel kernel,
                        double* block_sums) {
  const std::size_t offset = slice.begin * bytes_of_element(reading);
  ReadArrays arrays;
  arrays.array = static_cast<const char*>(reading.array) + offset;
  if (reading.copy != nullptr) arrays.copy = static_cast<char*>(reading.copy) + offset;
  arrays.n = slice.size();
  if (wish.norm) arrays.block_sums = block_sums;
  arrays.digest = wish.digest;
  arrays.first_block = offset / kDigestBlockBytes;
  return kernel(arrays);
}

/// Returns how many bytes the first `members_before` of `members` would get if shares could end anywhere.
std::size_t equal_end(std::size_t bytes, std::size_t members_before, std::size_t members) {
  return bytes / members * members_before + bytes % members * members_before / members;
}

/// Calls use(slice) for the parts of an array.
template <class Use>
void in_parts(const Reading& reading, Use use) {
  const std::size_t most = kReadPartBytes / bytes_of_element(reading);
  for (std::size_t at = 0; at < reading.elements; at += most)
    use(Slice{at, std::min(at + most, reading.elements)});
}

}  // namespace

void cut(std::span<const Reading> readings, std::size_t members, Parts& result) {
  assert(members >= 1);
  std::size_t bytes = 0;
  for (const Reading& reading : readings) bytes += reading.bytes();
  result.parts.clear();
  result.first_of_member.assign(1, 0);
  std::size_t before = 0;
  for (std::size_t number = 0; number < readings.size(); ++number) {
    in_parts(readings[number], [&](const Slice& slice) {
      // The share that grows now ends before this part if it has its equal share already.
      while (result.first_of_member.size() < members &&
             before >= equal_end(bytes, result.first_of_member.size(), members)) {
        result.first_of_member.push_back(result.parts.size());
      }
      result.parts.push_back({.tensor = number, .slice = slice});
      before += slice.size() * bytes_of_element(readings[number]);
    });
  }
  while (result.first_of_member.size() <= members) result.first_of_member.push_back(result.parts.size());
}

void read_alone(std::span<Reading> readings, const ReadWish& wish, Isa isa) {
  for (Reading& reading : readings) {
    const ReadKernel kernel = read_kernel(isa, reading.type);
    double sum = 0.0;
    std::uint64_t shares = 0;
    in_parts(reading, [&](const Slice& slice) {
      double block_sums[norm_blocks(kReadPartBytes / 2)];
      shares += read_part(reading, slice, wish, kernel, block_sums);
      // Adds them up as gradient_norm() does for the whole array.
      if (wish.norm)
        for (std::size_t i = 0; i < norm_blocks(slice.size()); ++i) sum += block_sums[i];
    });
    reading.sum_of_squares = sum;
    reading.digest = digest_of(shares, reading.bytes());
  }
}

void read_by(Team& team, Dealing& dealing, std::span<Reading> readings, const ReadWish& wish, Isa isa) {
  Parts parts;
  cut(readings, team.size(), parts);
  std::vector<std::uint64_t> shares(parts.parts.size());  // of the digest, of each part
  std::vector<std::size_t> first_sum;                     // of each array
  std::size_t sums = 0;
  for (const Reading& reading : readings) {
    first_sum.push_back(sums);
    if (wish.norm) sums += norm_blocks(reading.elements);
  }
  const auto block_sums = std::make_unique_for_overwrite<double[]>(sums);

  dealing.deal(parts);
  team.run([&](std::size_t member, std::size_t members) {
    dealing.work(member, members, [&](const Part& part) {
      const Reading& reading = readings[part.tensor];
      double* const into = block_sums.get() + first_sum[part.tensor] + part.slice.begin / kNormBlock;
      shares[static_cast<std::size_t>(&part - parts.parts.data())] =
          read_part(reading, part.slice, wish, read_kernel(isa, reading.type), into);
    });
  });

  for (std::size_t i = 0; i < readings.size(); ++i) {
    const std::size_t count = wish.norm ? norm_blocks(readings[i].elements) : 0;
    readings[i].sum_of_squares =
        gradient_norm(std::span(block_sums.get() + first_sum[i], count)).sum_of_squares;
    readings[i].digest = 0;
  }
  for (std::size_t i = 0; i < shares.size(); ++i) readings[parts.parts[i].tensor].digest += shares[i];
  for (Reading& reading : readings) reading.digest = digest_of(reading.digest, reading.bytes());
}

}  // namespace zf
