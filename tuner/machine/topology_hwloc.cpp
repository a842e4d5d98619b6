// First half: loads an hwloc topology from any source, protected against a wrong source and a driver that
// hangs. Second half: reads it into a Topology.
#include "machine/topology_hwloc.hpp"

#include <fmt/core.h>
#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "children/child_output.hpp"
#include "machine/gpus.hpp"
#include "machine/hwloc_complaints.hpp"
#include "os/file.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Hwloc = std::unique_ptr<hwloc_topology, Destroy>;
using Bitmap = std::unique_ptr<hwloc_bitmap_s, Destroy>;

/// Which caches hwloc keeps: those of level 3 only, or also others that several cores share, because these
/// group cores for hwloc_distrib().
enum class Caches { l3, shared };

/// Returns an unloaded topology without the caches and distances that are not used here.
/// DONT_CHANGE_BINDING keeps hwloc from moving over all CPUs to ask each by CPUID; the kernel knows all that
/// is needed. Memory attributes stay: they tell HBM from other special memory.
Hwloc new_hwloc(bool with_io, Caches caches) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw Error(Exit::runtime_error, "hwloc cannot be initialised");
  Hwloc hwloc(raw);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED |
                                    HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING |
                                    HWLOC_TOPOLOGY_FLAG_NO_DISTANCES);
  hwloc_topology_set_cache_types_filter(
      raw, caches == Caches::shared ? HWLOC_TYPE_FILTER_KEEP_STRUCTURE : HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_icache_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_L3CACHE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_io_types_filter(
      raw, with_io ? HWLOC_TYPE_FILTER_KEEP_IMPORTANT : HWLOC_TYPE_FILTER_KEEP_NONE);
  return hwloc;
}

// --- Loading -----------------------------------------------------------------------------------------------

/// Loads a topology from the text of an XML file. Each of set_xmlbuffer and set_synthetic reports whether it
/// accepts its input, and hwloc then ignores the environment variables that name another machine. load()
/// alone would fall back to this machine silently.
Hwloc load_xml(const std::string& xml, const std::string& source, Caches caches) {
  Hwloc hwloc = new_hwloc(true, caches);
  const bool read =
      hwloc_topology_set_xmlbuffer(hwloc.get(), xml.c_str(), static_cast<int>(xml.size() + 1)) == 0 &&
      hwloc_topology_load(hwloc.get()) == 0;
  if (read) return hwloc;
  const auto tag = xml.find("<topology version=\"");
  const bool newer = tag != std::string::npos && xml[tag + 19] > '2';
  throw Error(Exit::usage,
              fmt::format("--topology {}: {}", source,
                          newer ? "the file is XML of hwloc 3, and zf-tune reads XML of hwloc 2"
                                : "hwloc cannot read this as XML"),
              newer ? "export it on the other machine with: lstopo --export-xml-flags v2 FILE.xml"
                    : "make one on the other machine with: lstopo FILE.xml");
}

Hwloc load_synthetic(const std::string& description, Caches caches) {
  Hwloc hwloc = new_hwloc(true, caches);
  if (hwloc_topology_set_synthetic(hwloc.get(), description.c_str()) == 0 &&
      hwloc_topology_load(hwloc.get()) == 0) {
    return hwloc;
  }
  throw Error(
      Exit::usage,
      fmt::format(
          "--topology \"{}\": there is no such file, and hwloc cannot read it as a synthetic description",
          description),
      "write for example \"pack:2 [numa(memory=256GiB)] l3u:2 core:12 pu:2\"");
}

/// Runs in the child, whose environment is its own. Returns what was written to stderr and then the machine
/// as XML; without the XML if hwloc fails. The child's own stderr leads nowhere. hwloc's GPU libraries stay
/// off: starting CUDA or NVML takes seconds per node and may hang, and PCI locality does not need them.
std::string discover(const SysRoot& sysroot, bool with_io, Caches caches) {
  for (const char* name :
       {"HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT", "HWLOC_CPUID_PATH", "HWLOC_THISSYSTEM",
        "HWLOC_THISSYSTEM_ALLOWED_RESOURCES", "HWLOC_DUMPED_HWDATA_DIR"}) {
    ::unsetenv(name);
  }
  std::string components = "-x86,-cuda,-nvml,-opencl,-gl,-levelzero,-rsmi";
  if (!sysroot.is_this_machine()) {
    components += ",-pci";  // libpciaccess would list the devices of this machine
    ::setenv("HWLOC_FSROOT", sysroot.path().c_str(), 1);
    ::setenv("HWLOC_THISSYSTEM", "0", 1);
  }
  ::setenv("HWLOC_COMPONENTS", components.c_str(), 1);

  StderrKept messages;
  const Hwloc hwloc = new_hwloc(with_io, caches);
  char* xml = nullptr;
  int bytes = 0;
  const bool read = hwloc_topology_load(hwloc.get()) == 0 &&
                    hwloc_topology_export_xmlbuffer(hwloc.get(), &xml, &bytes, 0) == 0;
  return messages.taken() + (read ? xml : "");
}

/// Loads a machine from its /proc and /sys. A child process reads it, because I/O discovery can hang or crash
/// in a driver, and passes it on as XML. If the child does not answer within the deadline, a second child
/// reads the machine without I/O.
Hwloc load_sysroot(const TopologySource& source, Caches caches, std::vector<std::string>& missing) {
  const SysRoot& sysroot = source.sysroot;
  if (!sysroot.read("/sys/devices/system/cpu/online")) {  // hwloc would invent a machine
    throw Error(
        Exit::usage,
        fmt::format("{}: cannot read sys/devices/system/cpu/online there", sysroot.path().string()),
        "give --sysroot a folder that holds proc/ and sys/ of a machine, or give --topology an XML file");
  }
  ChildOutput found;
  const auto xml = [&] { return found.text.find("<?xml"); };
  const auto note_messages = [&] {
    if (auto complaint = complaint_or_passed_on(found.text.substr(0, xml())))
      missing.push_back(*std::move(complaint));
  };
  if (source.with_io)
    found = output_of_child([&] { return discover(sysroot, true, caches); }, source.io_deadline);
  if (source.with_io && xml() == std::string::npos) {
    note_messages();
    missing.push_back(
        found.end == ChildOutput::End::late
            ? fmt::format("I/O discovery did not finish within {} ms (a driver may hang): no GPUs are known",
                          source.io_deadline.count())
            : "I/O discovery failed: no GPUs are known");
  }
  if (xml() == std::string::npos) {
    found = output_of_child([&] { return discover(sysroot, false, caches); }, std::chrono::seconds(60));
  }
  note_messages();
  if (xml() == std::string::npos) {
    throw Error(Exit::runtime_error,
                fmt::format("hwloc cannot read the machine at {}", sysroot.path().string()),
                "check whether lstopo works on that machine");
  }
  return load_xml(found.text.substr(xml()), sysroot.path().string(), caches);
}

/// The largest synthetic machine. Linux knows at most 8192 CPUs; a million would take hours.
constexpr std::uint64_t kMostSyntheticPus = 8192;

/// Returns the product of the counts of a synthetic description, which is the number of its PUs. What stands
/// in brackets or parentheses (memory, attributes) does not count.
std::uint64_t synthetic_pus(std::string_view description) {
  std::uint64_t pus = 1;
  int depth = 0;
  for (std::size_t i = 0; i < description.size(); ++i) {
    depth += description[i] == '[' || description[i] == '(' ? 1 : 0;
    depth -= description[i] == ']' || description[i] == ')' ? 1 : 0;
    const bool begins = i == 0 || description[i - 1] == ':' || description[i - 1] == ' ';
    std::uint64_t count = 0;
    const char* const text = description.data() + i;
    if (depth != 0 || !begins) continue;
    const auto [end, error] = std::from_chars(text, description.data() + description.size(), count);
    if (end == text) continue;
    if (error != std::errc()) count = UINT32_MAX;
    pus = std::min(pus * std::clamp<std::uint64_t>(count, 1, UINT32_MAX), std::uint64_t{UINT32_MAX});
  }
  return pus;
}

void refuse_huge(const std::string& description) {
  const std::uint64_t pus = synthetic_pus(description);
  if (pus <= kMostSyntheticPus) return;
  throw Error(Exit::usage,
              fmt::format("--topology \"{}\": has {}{} PUs; at most {} can be read", description,
                          pus == UINT32_MAX ? "at least " : "", pus, kMostSyntheticPus),
              "describe a smaller machine");
}

/// Returns true if --topology names a file and is not a synthetic description.
bool names_file(const std::string& given) {
  std::error_code ignored;
  return !given.empty() && (std::filesystem::exists(given, ignored) || given.ends_with(".xml") ||
                            given.find('/') != std::string::npos);
}

Hwloc load(const TopologySource& source, Caches caches, std::vector<std::string>& missing) {
  const std::string& given = source.topology;
  if (given.empty()) return load_sysroot(source, caches, missing);
  if (names_file(given)) {
    StderrKept messages;
    Hwloc hwloc = load_xml(read_text_file(given), given, caches);
    if (auto complaint = complaint_or_passed_on(messages.taken())) missing.push_back(*std::move(complaint));
    return hwloc;
  }
  refuse_huge(given);
  return load_synthetic(given, caches);
}

// --- Reading -----------------------------------------------------------------------------------------------

template <class Id>
IdSet<Id> ids_of(hwloc_const_bitmap_t bitmap) {
  std::vector<Id> ids;
  if (bitmap == nullptr || hwloc_bitmap_weight(bitmap) < 0) return {};
  for (int id = hwloc_bitmap_first(bitmap); id >= 0; id = hwloc_bitmap_next(bitmap, id))
    ids.push_back(Id{id});
  return IdSet<Id>(std::move(ids));
}

CpuSet cpuset_of(hwloc_obj_t object) { return ids_of<Pu>(object->cpuset); }

std::string info_of(hwloc_obj_t object, const char* name) {
  const char* text = object == nullptr ? nullptr : hwloc_obj_get_info_by_name(object, name);
  return text == nullptr ? std::string() : std::string(text);
}

std::vector<hwloc_obj_t> objects_of(hwloc_topology_t hwloc, hwloc_obj_type_t type) {
  std::vector<hwloc_obj_t> objects;
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(hwloc, type, object)) != nullptr;) {
    objects.push_back(object);
  }
  return objects;
}

void read_nodes(hwloc_topology_t hwloc, Topology& topology, std::vector<NodeLocality>& localities) {
  for (const hwloc_obj_t object : objects_of(hwloc, HWLOC_OBJ_NUMANODE)) {
    const std::string subtype = object->subtype == nullptr ? "" : object->subtype;
    const Node id{static_cast<int>(object->os_index)};
    const CpuSet local = cpuset_of(object) & topology.cpus;
    topology.nodes.push_back(
        {id, object->attr->numanode.local_memory, {}, subtype == "DRAM" ? "" : subtype, local});
    localities.push_back({id, local, subtype});
  }
}

/// Reads the kinds, slow ones first. Without `with_base_clocks`, kinds that differ in nothing but their base
/// clock are one: SST-BF deals base clocks to cores of one make, anew for each chip. core_speeds.hpp reads
/// them.
void read_cpu_kinds(hwloc_topology_t hwloc, bool with_base_clocks, Topology& topology) {
  const int count = hwloc_cpukinds_get_nr(hwloc, 0);
  for (unsigned i = 0; static_cast<int>(i) < count; ++i) {
    const Bitmap cpus(hwloc_bitmap_alloc());
    CpuKind kind;
    unsigned infos_count = 0;
    hwloc_info_s* infos = nullptr;
    if (hwloc_cpukinds_get_info(hwloc, i, cpus.get(), &kind.efficiency_rank, &infos_count, &infos, 0) != 0)
      continue;
    bool has_base_clock = false;
    for (unsigned info = 0; info < infos_count; ++info) {
      const std::string_view name = infos[info].name;
      if (name == "LinuxCapacity") kind.capacity = parse_number<int>(infos[info].value);
      if (name == "FrequencyBaseMHz" && !with_base_clocks) {
        has_base_clock = true;
        continue;
      }
      kind.description +=
          fmt::format("{}{}={}", kind.description.empty() ? "" : " ", name, infos[info].value);
    }
    kind.cpus = ids_of<Pu>(cpus.get());
    const auto same = std::find_if(
        topology.cpu_kinds.begin(), topology.cpu_kinds.end(),
        [&](const CpuKind& other) { return has_base_clock && other.description == kind.description; });
    if (same != topology.cpu_kinds.end()) {
      same->cpus |= kind.cpus;
      continue;
    }
    if (kind.efficiency_rank >= 0) kind.efficiency_rank = static_cast<int>(topology.cpu_kinds.size());
    topology.cpu_kinds.push_back(std::move(kind));
  }
  topology.cpu_kinds = join_similar_kinds(topology.cpu_kinds);
}

/// Adds one Core for each of hwloc's; one for each PU if hwloc knows no cores (a bare "numa:2 pu:4").
void read_cores(hwloc_topology_t hwloc, Topology& topology, const std::vector<NodeLocality>& localities) {
  for (const hwloc_obj_t cache : objects_of(hwloc, HWLOC_OBJ_L3CACHE)) {
    topology.l3_groups.push_back({cpuset_of(cache), cache->attr->cache.size});
  }
  const bool has_cores = hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_CORE) > 0;
  for (const hwloc_obj_t object : objects_of(hwloc, has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU)) {
    Core core;
    core.cpus = cpuset_of(object);
    if (core.cpus.empty()) continue;
    if (const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(hwloc, HWLOC_OBJ_PACKAGE, object)) {
      const bool numbered = package->os_index != HWLOC_UNKNOWN_INDEX;
      core.package = static_cast<int>(numbered ? package->os_index : package->logical_index);
    }
    if (const hwloc_obj_t cache = hwloc_get_ancestor_obj_by_type(hwloc, HWLOC_OBJ_L3CACHE, object)) {
      core.l3 = static_cast<int>(cache->logical_index);
    }
    if (const int owner = owner_of(core.cpus, localities); owner >= 0) {
      NumaNode& node = topology.nodes[static_cast<std::size_t>(owner)];
      node.cpus |= core.cpus;
      core.node = node.id;
    }
    for (std::size_t kind = 0; kind < topology.cpu_kinds.size(); ++kind) {
      if (topology.cpu_kinds[kind].cpus.contains(core.cpus)) core.kind = static_cast<int>(kind);
    }
    topology.cores.push_back(std::move(core));
  }
}

void read_gpus(hwloc_topology_t hwloc, Topology& topology) {
  for (hwloc_obj_t device = nullptr; (device = hwloc_get_next_pcidev(hwloc, device)) != nullptr;) {
    const auto& pci = device->attr->pcidev;
    PciIdentity identity{
        pci.class_id, pci.vendor_id, pci.device_id, pci.bus, device->name ? device->name : "", {}};
    for (hwloc_obj_t child = device->io_first_child; child != nullptr; child = child->next_sibling) {
      if (child->type != HWLOC_OBJ_OS_DEVICE) continue;
      const bool runs_code = child->attr->osdev.type == HWLOC_OBJ_OSDEV_COPROC;
      identity.os_devices.push_back({child->name ? child->name : "", info_of(child, "GPUModel"), runs_code});
    }
    if (!is_compute_gpu(identity)) continue;

    Gpu gpu;
    gpu.pci_address = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func);
    gpu.name = gpu_name(identity);
    gpu.framework_number = framework_number(identity);
    gpu.vendor_id = pci.vendor_id;
    gpu.local_cpus = cpuset_of(hwloc_get_non_io_ancestor_obj(hwloc, device)) & topology.cpus;
    for (const NumaNode& node : topology.nodes) {
      if (!gpu.local_cpus.empty() && node.cpus.contains(gpu.local_cpus)) gpu.node = node.id;
    }
    topology.gpus.push_back(std::move(gpu));
  }
  std::sort(topology.gpus.begin(), topology.gpus.end(),
            [](const Gpu& a, const Gpu& b) { return a.pci_address < b.pci_address; });
}

std::string cpu_model(hwloc_topology_t hwloc) {
  std::string model = info_of(hwloc_get_obj_by_type(hwloc, HWLOC_OBJ_PACKAGE, 0), "CPUModel");
  if (model.empty()) model = info_of(hwloc_get_root_obj(hwloc), "CPUModel");
  return model.substr(0, model.find_last_not_of(' ') + 1);  // AMD pads its names to 47 characters
}

Topology read_in_this_process(const TopologySource& source) {
  Topology topology;
  const Hwloc owned = load(source, Caches::l3, topology.missing);
  const hwloc_topology_t hwloc = owned.get();

  topology.is_this_machine = source.topology.empty() && source.sysroot.is_this_machine();
  topology.source = topology.is_this_machine  ? "this machine"
                    : source.topology.empty() ? source.sysroot.path().string()
                                              : source.topology;
  topology.cpu_model = cpu_model(hwloc);
  topology.cpus = ids_of<Pu>(hwloc_topology_get_topology_cpuset(hwloc));
  topology.complete_cpus = ids_of<Pu>(hwloc_topology_get_complete_cpuset(hwloc)) | topology.cpus;
  topology.allowed_cpus = ids_of<Pu>(hwloc_topology_get_allowed_cpuset(hwloc)) & topology.cpus;
  topology.allowed_nodes = ids_of<Node>(hwloc_topology_get_allowed_nodeset(hwloc));
  topology.packages = std::max(hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_PACKAGE), 1);

  std::vector<NodeLocality> localities;
  read_nodes(hwloc, topology, localities);
  read_cpu_kinds(hwloc, !source.topology.empty(), topology);
  read_cores(hwloc, topology, localities);
  read_gpus(hwloc, topology);
  std::sort(topology.nodes.begin(), topology.nodes.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.id < b.id; });
  return topology;
}

/// Reads a machine of an XML file in a child first, because hwloc crashes on some damaged files. Throws if it
/// crashes or hangs. An Error in the child comes again in this process.
void try_in_child(const TopologySource& source) {
  constexpr std::chrono::seconds deadline(60);
  const auto work = [&] {
    try {
      read_in_this_process(source);
    } catch (const Error&) {  // the caller gets it
    }
    return std::string("no crash");
  };
  const ChildOutput tried = output_of_child(work, deadline);
  if (tried.end == ChildOutput::End::done) return;
  throw Error(Exit::usage,
              fmt::format("--topology {}: hwloc {}", source.topology,
                          tried.end == ChildOutput::End::late
                              ? fmt::format("did not finish reading this within {} s", deadline.count())
                              : "crashes when it reads this"),
              "is it damaged? Make it anew on the other machine with: lstopo FILE.xml");
}

}  // namespace

Topology read_topology(const TopologySource& source) {
  if (names_file(source.topology)) try_in_child(source);
  return read_in_this_process(source);
}

std::vector<CpuSet> hwloc_distribution(const TopologySource& source, const CpuSet& allowed, int ranks) {
  if (names_file(source.topology)) try_in_child(source);
  std::vector<std::string> missing;
  const Hwloc hwloc = load(source, Caches::shared, missing);
  const Bitmap cpus(hwloc_bitmap_alloc());
  for (const Pu cpu : allowed) hwloc_bitmap_set(cpus.get(), static_cast<unsigned>(cpu.os_index));
  std::vector<hwloc_cpuset_t> sets(static_cast<std::size_t>(ranks));
  hwloc_obj_t root = hwloc_get_root_obj(hwloc.get());
  if (hwloc_topology_restrict(hwloc.get(), cpus.get(), 0) != 0 ||
      hwloc_distrib(hwloc.get(), &root, 1, sets.data(), static_cast<unsigned>(ranks), INT_MAX, 0) != 0) {
    throw Error(Exit::runtime_error, fmt::format("hwloc cannot distribute {} over CPUs {}",
                                                 print_count(sets.size(), "rank"), print(allowed)));
  }
  std::vector<CpuSet> homes;
  for (const hwloc_cpuset_t set : sets) {
    const Bitmap owned(set);
    homes.push_back(ids_of<Pu>(owned.get()));
  }
  return homes;
}

}  // namespace zf
