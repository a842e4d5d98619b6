#include "machine/memory_modules.hpp"

#include <cstddef>
#include <utility>

#include "base/format.hpp"

namespace zf {
namespace {

constexpr const char* kEntries = "/sys/firmware/dmi/entries";
constexpr std::uint8_t kMemoryDevice = 17;

// Offsets of DSP0134 3.x, "Memory Device (Type 17)". All numbers are little-endian.
constexpr std::size_t kLength = 0x01;
constexpr std::size_t kDataWidth = 0x0A;
constexpr std::size_t kSize = 0x0C;
constexpr std::size_t kType = 0x12;
constexpr std::size_t kSpeed = 0x15;
constexpr std::size_t kConfiguredSpeed = 0x20;
constexpr std::size_t kExtendedSpeed = 0x54;
constexpr std::size_t kExtendedConfiguredSpeed = 0x58;

constexpr std::uint32_t kFirstRom = 0x08;  // ROM, flash, EEPROM, FEPROM, EPROM
constexpr std::uint32_t kLastRom = 0x0C;
constexpr std::uint16_t kUnknownWidth = 0xFFFF;
constexpr std::uint16_t kSeeExtended = 0xFFFF;

/// Returns a number of `bytes` bytes; 0 if the structure ends before it.
std::uint32_t number_at(std::string_view structure, std::size_t offset, std::size_t bytes) {
  if (structure.size() < offset + bytes) return 0;
  std::uint32_t value = 0;
  for (std::size_t i = bytes; i-- > 0;)
    value = (value << 8) | static_cast<std::uint8_t>(structure[offset + i]);
  return value;
}

std::uint16_t word_at(std::string_view structure, std::size_t offset) {
  return static_cast<std::uint16_t>(number_at(structure, offset, 2));
}

/// Returns a speed in MT/s; 0 if it is unknown.
std::uint32_t speed_at(std::string_view structure, std::size_t offset, std::size_t extended) {
  const std::uint16_t speed = word_at(structure, offset);
  if (speed != kSeeExtended) return speed;
  return number_at(structure, extended, 4) & 0x7FFF'FFFF;  // the highest bit is reserved
}

NominalBandwidth unknown(std::string because) { return {std::nullopt, 0, std::move(because)}; }

}  // namespace

std::optional<MemoryModule> parse_memory_module(std::string_view raw) {
  if (number_at(raw, 0, 1) != kMemoryDevice) return std::nullopt;
  const std::size_t length = number_at(raw, kLength, 1);
  if (length < kSize + 2 || raw.size() < length) return std::nullopt;
  const std::string_view structure = raw.substr(0, length);  // the strings follow it
  MemoryModule device;
  const std::uint32_t type = number_at(structure, kType, 1);
  const bool is_rom = type >= kFirstRom && type <= kLastRom;
  device.populated = word_at(structure, kSize) != 0 && !is_rom;
  const std::uint16_t width = word_at(structure, kDataWidth);
  device.data_bits = width == kUnknownWidth ? 0 : width;
  device.megatransfers_per_s = speed_at(structure, kConfiguredSpeed, kExtendedConfiguredSpeed);
  if (device.megatransfers_per_s == 0)
    device.megatransfers_per_s = speed_at(structure, kSpeed, kExtendedSpeed);
  return device;
}

NominalBandwidth read_nominal_bandwidth(const SysRoot& sysroot) {
  NominalBandwidth nominal{0.0, 0, ""};
  int slots = 0;
  for (const std::string& name : sysroot.list(kEntries)) {
    if (!name.starts_with("17-")) continue;
    ++slots;
    const std::string path = format_text("{}/{}/raw", kEntries, name);
    const auto raw = sysroot.read(path);
    if (!raw) return unknown(path + " cannot be read (only root can)");
    const auto device = parse_memory_module(*raw);
    if (!device) return unknown(path + " is not a whole structure of SMBIOS type 17");
    if (!device->populated) continue;
    if (device->data_bits == 0) return unknown(path + " does not tell the width of the memory module");
    if (device->megatransfers_per_s == 0)
      return unknown(path + " does not tell the speed of the memory module");
    *nominal.bytes_per_s += device->data_bits / 8.0 * device->megatransfers_per_s * 1e6;
    ++nominal.modules;
  }
  if (slots == 0) {
    return unknown(format_text(
        "{} has no memory modules (containers and many virtual machines hide them; some systems need "
        "modprobe dmi-sysfs)",
        kEntries));
  }
  if (nominal.modules == 0) return unknown(format_text("{} has only empty memory slots", kEntries));
  return nominal;
}

}  // namespace zf
