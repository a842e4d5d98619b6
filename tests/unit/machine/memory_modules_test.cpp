#include "machine/memory_modules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "../os/tree.hpp"
#include "base/format.hpp"

namespace zf {
namespace {

using testing::HasSubstr;

/// One SMBIOS structure of type 17, with one string behind it.
class Structure {
 public:
  explicit Structure(std::size_t length) : bytes_(length, '\0') {
    put(0x00, 17, 1).put(0x01, static_cast<std::uint32_t>(length), 1);
  }

  /// Writes a little-endian number, as far as the structure has this field.
  Structure& put(std::size_t offset, std::uint32_t value, std::size_t bytes = 2) {
    for (std::size_t i = 0; i < bytes && offset + bytes <= bytes_.size(); ++i)
      bytes_[offset + i] = static_cast<char>((value >> (8 * i)) & 0xFF);
    return *this;
  }

  /// Returns the bytes as the kernel shows them.
  std::string raw() const { return bytes_ + std::string("DIMM 0\0\0", 8); }

 private:
  std::string bytes_;
};

/// Returns a module of 64 bits and 32 GiB: ECC makes it 72 bits wide.
Structure module_of(std::size_t length, std::uint32_t speed, std::uint32_t configured) {
  Structure structure(length);
  structure.put(0x08, 72).put(0x0A, 64).put(0x0C, 0x7FFF).put(0x15, speed);
  return structure.put(0x1C, 32 << 10, 4).put(0x20, configured);
}

constexpr std::size_t kSmbios27 = 0x22;  // the first with a configured speed
constexpr std::size_t kSmbios28 = 0x28;
constexpr std::size_t kSmbios33 = 0x5C;  // the first with extended speeds

void add(Tree& tree, int number, const std::string& raw) {
  tree.file(format_text("/sys/firmware/dmi/entries/17-{}/raw", number), raw);
}

void expect_unknown(const Tree& tree, const std::string& because) {
  const NominalBandwidth nominal = read_nominal_bandwidth(tree.sysroot());
  EXPECT_EQ(nominal.bytes_per_s, std::nullopt);
  EXPECT_THAT(nominal.unknown_because, HasSubstr(because));
}

TEST(MemoryModules, TwoPackagesWithEightDdr5ModulesEachAsConfigured) {
  Tree tree;
  tree.file("/sys/firmware/dmi/entries/16-0/raw", "the array, which is not looked at");
  for (int i = 0; i < 16; ++i) add(tree, i, module_of(kSmbios33, 4800, 4400).raw());
  const NominalBandwidth nominal = read_nominal_bandwidth(tree.sysroot());
  EXPECT_EQ(nominal.bytes_per_s, 16 * 8 * 4400e6);
  EXPECT_EQ(nominal.modules, 16);
  EXPECT_EQ(nominal.unknown_because, "");
}

TEST(MemoryModules, ShortStructuresOfDdr4ServersHaveAConfiguredSpeed) {
  for (const std::size_t length : {kSmbios27, kSmbios28}) {
    const auto device = parse_memory_module(module_of(length, 3200, 2933).raw());
    ASSERT_TRUE(device);
    EXPECT_TRUE(device->populated);
    EXPECT_EQ(device->data_bits, 64);
    EXPECT_EQ(device->megatransfers_per_s, 2933U) << length;
  }
}

TEST(MemoryModules, WithoutAConfiguredSpeedTheHighestCounts) {
  EXPECT_EQ(parse_memory_module(module_of(0x1B, 1066, 0).raw())->megatransfers_per_s, 1066U)
      << "SMBIOS 2.3 has no such field";
  EXPECT_EQ(parse_memory_module(module_of(kSmbios33, 4800, 0).raw())->megatransfers_per_s, 4800U)
      << "0 is unknown";
  EXPECT_EQ(parse_memory_module(module_of(0x15, 1066, 0).raw())->megatransfers_per_s, 0U)
      << "SMBIOS 2.1 has no speed";
}

TEST(MemoryModules, ASpeedThatDoesNotFitIsInTheExtendedField) {
  const auto both = module_of(kSmbios33, 0xFFFF, 0xFFFF).put(0x54, 80000, 4).put(0x58, 70000, 4).raw();
  EXPECT_EQ(parse_memory_module(both)->megatransfers_per_s, 70000U);
  const auto highest = module_of(kSmbios33, 0xFFFF, 0).put(0x54, 0x8000'0000U + 80000, 4).raw();
  EXPECT_EQ(parse_memory_module(highest)->megatransfers_per_s, 80000U) << "the highest bit is reserved";
  EXPECT_EQ(parse_memory_module(module_of(kSmbios28, 0xFFFF, 0xFFFF).raw())->megatransfers_per_s, 0U)
      << "a short structure has no extended field";
}

TEST(MemoryModules, EmptySlotsDoNotCount) {
  Tree tree;
  add(tree, 0, module_of(kSmbios28, 3200, 3200).raw());
  add(tree, 1, Structure(kSmbios28).put(0x0A, 0xFFFF).raw());
  const NominalBandwidth nominal = read_nominal_bandwidth(tree.sysroot());
  EXPECT_EQ(nominal.bytes_per_s, 8 * 3200e6);
  EXPECT_EQ(nominal.modules, 1);
  add(tree, 2, module_of(kSmbios28, 0, 0).put(0x12, 0x09, 1).raw());
  EXPECT_EQ(read_nominal_bandwidth(tree.sysroot()).modules, 1) << "flash is no main memory";
  Tree empty;
  add(empty, 0, Structure(kSmbios28).raw());
  expect_unknown(empty, "/sys/firmware/dmi/entries has only empty memory slots");
}

TEST(MemoryModules, AModuleOfUnknownSizeIsThere) {
  EXPECT_TRUE(parse_memory_module(module_of(kSmbios28, 3200, 3200).put(0x0C, 0xFFFF).raw())->populated);
}

TEST(MemoryModules, OneUnknownModuleMakesTheFigureUnknown) {
  const auto good = module_of(kSmbios28, 3200, 3200);
  for (const auto& [bad, because] :
       {std::pair(module_of(kSmbios28, 3200, 3200).put(0x0A, 0xFFFF), "does not tell the width"),
        std::pair(module_of(kSmbios28, 3200, 3200).put(0x0A, 0), "does not tell the width"),
        std::pair(module_of(kSmbios28, 0, 0), "does not tell the speed")}) {
    Tree tree;
    add(tree, 0, good.raw());
    add(tree, 1, bad.raw());
    expect_unknown(tree, format_text("/sys/firmware/dmi/entries/17-1/raw {}", because));
  }
}

TEST(MemoryModules, WhatIsCutOffIsNoStructure) {
  const std::string raw = module_of(kSmbios33, 4800, 4400).raw();
  for (std::size_t size = 0; size < kSmbios33; ++size)
    EXPECT_FALSE(parse_memory_module(raw.substr(0, size))) << size;
  EXPECT_TRUE(parse_memory_module(raw.substr(0, kSmbios33))) << "nothing is read from the strings";
  Tree tree;
  add(tree, 0, raw.substr(0, 0x30));
  expect_unknown(tree, "17-0/raw is not a whole structure of SMBIOS type 17");
}

TEST(MemoryModules, GarbageIsNoStructure) {
  EXPECT_FALSE(parse_memory_module(std::string(100, '\xFF')));
  EXPECT_FALSE(parse_memory_module(std::string(100, '\0')));
  EXPECT_FALSE(parse_memory_module("DIMM 0"));
  EXPECT_FALSE(parse_memory_module(module_of(kSmbios28, 3200, 3200).put(0x01, 0x0D, 1).raw()))
      << "it says that it ends inside of the size";
  EXPECT_FALSE(parse_memory_module(module_of(kSmbios28, 3200, 3200).put(0x00, 16, 1).raw()))
      << "of another type";
}

TEST(MemoryModules, WhatCannotBeReadIsNamed) {
  Tree tree;
  expect_unknown(tree, "/sys/firmware/dmi/entries has no memory modules");
  add(tree, 0, module_of(kSmbios28, 3200, 3200).raw());
  std::filesystem::create_directories(tree.path() / "sys/firmware/dmi/entries/17-1");
  expect_unknown(tree, "/sys/firmware/dmi/entries/17-1/raw cannot be read (only root can)");
}

}  // namespace
}  // namespace zf
