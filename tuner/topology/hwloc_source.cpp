#include "topology/hwloc_source.hpp"

#include <fcntl.h>
#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/file_descriptor.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "children/child_output.hpp"
#include "os/file.hpp"
#include "os/online_cpus.hpp"
#include "topology/hwloc_complaints.hpp"
#include "topology/hwloc_view.hpp"
#include "topology/pci_locality.hpp"

namespace zf {
namespace {

/// Returns an unloaded topology without the caches and distances that are not used here.
/// DONT_CHANGE_BINDING keeps hwloc from moving over all CPUs to ask each by CPUID; the kernel knows all that
/// is needed. Memory attributes stay: they tell HBM from other special memory.
Hwloc new_hwloc(bool with_io) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw Error(Exit::runtime_error, "hwloc cannot be initialised");
  Hwloc hwloc(raw);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED |
                                    HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING |
                                    HWLOC_TOPOLOGY_FLAG_NO_DISTANCES);
  hwloc_topology_set_cache_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_icache_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_L3CACHE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_io_types_filter(
      raw, with_io ? HWLOC_TYPE_FILTER_KEEP_IMPORTANT : HWLOC_TYPE_FILTER_KEEP_NONE);
  return hwloc;
}

/// Sets an environment variable while it lives.
class VariableSet {
 public:
  VariableSet(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  ~VariableSet() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }
  VariableSet(const VariableSet&) = delete;
  VariableSet& operator=(const VariableSet&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

/// Without libxml2 hwloc reads only what an hwloc has written, but in half the time. It looks at the variable
/// once per process.
constexpr const char* kLibxml = "HWLOC_LIBXML";

/// Loads a topology from the text of an XML file; null if hwloc cannot read it. Each of set_xmlbuffer and
/// set_synthetic reports whether it accepts its input, and hwloc then ignores the environment variables that
/// name another machine. load() alone would fall back to this machine silently.
Hwloc hwloc_of_xml(const std::string& xml) {
  Hwloc hwloc = new_hwloc(true);
  const bool read =
      hwloc_topology_set_xmlbuffer(hwloc.get(), xml.c_str(), static_cast<int>(xml.size() + 1)) == 0 &&
      hwloc_topology_load(hwloc.get()) == 0;
  return read ? std::move(hwloc) : nullptr;
}

/// Returns the machine as XML in hwloc's own form; an empty text if hwloc fails.
std::string xml_of(hwloc_topology_t hwloc) {
  char* xml = nullptr;
  int bytes = 0;
  if (hwloc_topology_export_xmlbuffer(hwloc, &xml, &bytes, 0) != 0) return "";
  std::string text(xml);
  hwloc_free_xmlbuffer(hwloc, xml);
  return text;
}

/// Returns the text with line ends of Unix. hwloc alone, without libxml2, reads no others.
std::string with_unix_line_ends(std::string text) {
  std::erase(text, '\r');
  return text;
}

/// Loads a topology from XML in hwloc's own form, without hwloc's plugins (libxml2, OpenCL, X11).
Hwloc load_xml(const std::string& xml, const std::string& source) {
  const VariableSet without_libxml(kLibxml, "0");
  const VariableSet without_plugins("HWLOC_PLUGINS_PATH", "");
  if (Hwloc hwloc = hwloc_of_xml(xml)) return hwloc;
  const auto tag = xml.find("<topology version=\"");
  const bool newer = tag != std::string::npos && xml[tag + 19] > '2';
  throw Error(Exit::usage,
              format_text("--topology {}: {}", source,
                          newer ? "the file is XML of hwloc 3, and zf-tune reads XML of hwloc 2"
                                : "hwloc cannot read this as XML"),
              newer ? "export it on the other machine with: lstopo --export-xml-flags v2 FILE.xml"
                    : "make one on the other machine with: lstopo FILE.xml");
}

/// Returns the option as it was given, up to a length that leaves room for the reason.
std::string named(const std::string& description) {
  constexpr std::size_t most = 200;
  return description.size() <= most
             ? format_text("--topology \"{}\"", description)
             : format_text("--topology \"{}...\" ({})", one_line(description.substr(0, most)),
                           print_count(description.size(), "byte"));
}

Hwloc load_synthetic(const std::string& description) {
  Hwloc hwloc = new_hwloc(true);
  if (hwloc_topology_set_synthetic(hwloc.get(), description.c_str()) == 0 &&
      hwloc_topology_load(hwloc.get()) == 0) {
    return hwloc;
  }
  throw Error(Exit::usage,
              format_text("{}: there is no such file, and hwloc cannot read it as a synthetic description",
                          named(description)),
              "write for example \"pack:2 [numa(memory=256GiB)] l3u:2 core:12 pu:2\"");
}

/// Runs in the child, with an environment of its own. Returns what was written to stderr and then the machine
/// as XML; without the XML if hwloc fails. The child's own stderr leads nowhere. hwloc's GPU libraries stay
/// off: starting CUDA or NVML takes seconds per node and may hang, and PCI locality does not need them.
std::string discover(const SysRoot& sysroot, bool with_io, const PciLocality& locality = {}) {
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
  if (!locality.variable.empty()) ::setenv("HWLOC_PCI_LOCALITY", locality.variable.c_str(), 1);

  ::setenv(kLibxml, "0", 1);
  StderrKept messages;
  const Hwloc hwloc = new_hwloc(with_io);
  const std::string xml = hwloc_topology_load(hwloc.get()) == 0 ? xml_of(hwloc.get()) : "";
  return messages.taken() + xml;
}

/// Returns the folder that shows hwloc all CPUs that are online; nothing if the machine's own files do, or if
/// no folder can be made. Says what is missing. Throws Error(runtime_error) if hwloc would find no CPU
/// without the folder, and none can be made: it would invent a machine.
std::unique_ptr<HwlocView> view_of(const SysRoot& sysroot, const OnlineCpus& online,
                                   std::vector<std::string>& missing) {
  const HiddenCpus hidden = hidden_cpus(sysroot, online);
  if (!hidden.any()) return nullptr;
  try {
    auto view = std::make_unique<HwlocView>(sysroot, online, hidden);
    if (auto words = unknown_topology(hidden.without_topology); !words.empty())
      missing.push_back(std::move(words));
    return view;
  } catch (const Error& error) {
    if (hidden.without_topology.contains(online.cpus)) throw;
    const CpuSet lost = hidden.unlisted | hidden.without_topology;
    missing.push_back(format_text("/sys does not show {}, which {} left out: {}", print_cpus(lost),
                                  lost.size() == 1 ? "is" : "are", error.what()));
    return nullptr;
  }
}

/// Returns what the last child has found that is asked for GPUs: the first one, unless it crashes on PCI
/// devices that are near no CPU that is online.
ChildOutput discover_with_io(const SysRoot& sysroot, const CpuSet& online, std::chrono::milliseconds deadline,
                             std::vector<std::string>& missing) {
  ChildOutput found = output_of_child([&] { return discover(sysroot, true); }, deadline);
  if (found.end != ChildOutput::End::died) return found;
  const PciLocality strays = stray_buses(sysroot, online);
  if (strays.buses.empty()) return found;
  found = output_of_child([&] { return discover(sysroot, true, strays); }, deadline);
  if (found.end == ChildOutput::End::done) {
    missing.push_back(format_text(
        "the CPUs near PCI bus {} are unknown: those that /sys names are not online", strays.buses));
  }
  return found;
}

/// Throws if so few descriptors are left that hwloc would pass over files without a word.
void need_descriptors() {
  std::array<FileDescriptor, 8> taken;
  for (FileDescriptor& fd : taken) {
    fd = FileDescriptor(::open("/", O_PATH | O_CLOEXEC));
    if (!fd.valid()) throw_errno(errno, "cannot read the machine", descriptor_hint(errno));
  }
}

/// Loads a machine from its /proc and /sys. A child process reads it, because I/O discovery can hang or crash
/// in a driver, and passes it on as XML. If the child does not answer within the deadline, another child
/// reads the machine without I/O.
Hwloc load_sysroot(const TopologySource& source, std::vector<std::string>& missing) {
  need_descriptors();
  const std::string name = source.sysroot.path().string();
  const OnlineCpus online = read_online_cpus(source.sysroot);
  if (online.cpus.empty()) {
    throw Error(
        Exit::usage, format_text("{}: cannot read sys/devices/system/cpu/online there", name),
        "give --sysroot a folder that holds proc/ and sys/ of a machine, or give --topology an XML file");
  }
  // hwloc opens a folder for each node of this list. The list of a damaged capture may have millions.
  const std::string nodes = "sys/devices/system/node/online";
  if (const auto list = source.sysroot.read("/" + nodes))
    parse_node_list(*list, (source.sysroot.path() / nodes).string());
  const std::unique_ptr<HwlocView> view = view_of(source.sysroot, online, missing);
  const SysRoot sysroot = view ? view->sysroot() : source.sysroot;
  ChildOutput found;
  const auto xml = [&] { return found.text.find("<?xml"); };
  const auto note_messages = [&] {
    if (auto complaint = take_complaint(found.text.substr(0, xml())))
      missing.push_back(*std::move(complaint));
  };
  if (source.with_io) found = discover_with_io(sysroot, online.cpus, source.io_deadline, missing);
  if (source.with_io && xml() == std::string::npos) {
    note_messages();
    missing.push_back(
        found.end == ChildOutput::End::late
            ? format_text("I/O discovery did not finish within {} ms (a driver may hang): no GPUs are known",
                          source.io_deadline.count())
            : "I/O discovery failed: no GPUs are known");
  }
  if (xml() == std::string::npos) {
    found = output_of_child([&] { return discover(sysroot, false); }, std::chrono::seconds(60));
  }
  note_messages();
  if (xml() == std::string::npos) {
    throw Error(Exit::runtime_error, format_text("hwloc cannot read the machine at {}", name),
                "check whether lstopo works on that machine");
  }
  return load_xml(found.text.substr(xml()), name);
}

/// The largest synthetic machine. Linux knows at most 8192 CPUs; a million would take hours.
constexpr std::uint64_t kMostSyntheticPus = 8192;

/// A description of so many PUs and memory nodes at most is read here, and a larger one in a child first,
/// because how long hwloc takes depends on the description: hwloc 2.9 compares each object with those beside
/// it, and takes 20 s for 8192 packages of one PU, and 12 s for 1024 packages with a hundred NUMA nodes each.
constexpr std::uint64_t kQuickSyntheticObjects = 1024;

/// Returns the product of the counts of a synthetic description, which is the number of its PUs. What stands
/// in brackets or parentheses (memory, attributes) does not count. hwloc reads counts as strtoul does, so
/// also 0x10 and +16, and needs no space before the next level.
std::uint64_t synthetic_pus(const std::string& description) {
  std::uint64_t pus = 1;
  bool in_name = false;
  for (const char* at = description.c_str(); *at != '\0';) {
    char* end = nullptr;
    const std::uint64_t count = in_name ? 0 : std::strtoull(at, &end, 0);
    if (!in_name && end != at) {
      pus = std::min(pus * std::clamp<std::uint64_t>(count, 1, UINT32_MAX), std::uint64_t{UINT32_MAX});
      at = end;
    } else if (*at == '(' || *at == '[') {
      at += std::strcspn(at, *at == '(' ? ")" : "]");
      in_name = false;
    } else {
      in_name = std::isalnum(static_cast<unsigned char>(*at)) != 0;
      ++at;
    }
  }
  return pus;
}

/// Returns a number above the count of PUs and memory nodes. The description has each memory node in
/// brackets. The machine may have that node once for each PU.
std::uint64_t most_synthetic_objects(const std::string& description) {
  const auto brackets = std::count(description.begin(), description.end(), '[');
  return synthetic_pus(description) * (1 + static_cast<std::uint64_t>(brackets));
}

void refuse_huge(const std::string& description) {
  const std::uint64_t pus = synthetic_pus(description);
  if (pus <= kMostSyntheticPus) return;
  throw Error(Exit::usage,
              format_text("{}: has {}{} PUs; at most {} can be read", named(description),
                          pus == UINT32_MAX ? "at least " : "", pus, kMostSyntheticPus),
              "describe a smaller machine");
}

/// What the child of try_to_read() says if `read` threw no Error.
constexpr std::string_view kRead = "read";

ChildOutput try_to_read(const TopologySource& source, const std::function<void(const TopologySource&)>& read,
                        std::chrono::seconds deadline) {
  const auto work = [&] {
    try {
      read(source);
      return std::string(kRead);
    } catch (const Error&) {  // the caller gets it
      return std::string("not read");
    }
  };
  return output_of_child(work, deadline);
}

/// Returns an XML file in hwloc's own form, as libxml2 reads it: a person or another tool may have written
/// the file. Returns an empty text if it cannot be read.
std::string rewritten_by_libxml(const std::string& file, std::chrono::seconds deadline) {
  const auto work = [&] {
    ::unsetenv(kLibxml);
    ::setenv("HWLOC_LIBXML_IMPORT", "1", 1);
    ::setenv("HWLOC_LIBXML_EXPORT", "0", 1);
    try {
      const Hwloc hwloc = hwloc_of_xml(read_text_file(file));
      return hwloc ? xml_of(hwloc.get()) : std::string();
    } catch (const Error&) {  // the caller reads the file again
      return std::string();
    }
  };
  const ChildOutput output = output_of_child(work, deadline);
  return output.end == ChildOutput::End::done ? output.text : "";
}

/// Returns true if --topology names a file and is not a synthetic description.
bool names_file(const std::string& given) {
  std::error_code ignored;
  return !given.empty() && (std::filesystem::exists(given, ignored) || given.ends_with(".xml") ||
                            given.find('/') != std::string::npos);
}

}  // namespace

void DestroyHwloc::operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }

Hwloc load_hwloc(const TopologySource& source, std::vector<std::string>& missing) {
  const std::string& given = source.topology;
  if (given.empty()) return load_sysroot(source, missing);
  if (names_file(given)) {
    StderrKept messages;
    Hwloc hwloc =
        load_xml(source.xml.empty() ? with_unix_line_ends(read_text_file(given)) : source.xml, given);
    if (auto complaint = take_complaint(messages.taken())) missing.push_back(*std::move(complaint));
    return hwloc;
  }
  refuse_huge(given);
  return load_synthetic(given);
}

TopologySource tried_in_child(const TopologySource& source,
                              const std::function<void(const TopologySource&)>& read) {
  const bool is_file = names_file(source.topology);
  if (source.topology.empty() ||
      (!is_file && most_synthetic_objects(source.topology) <= kQuickSyntheticObjects))
    return source;
  const std::chrono::seconds deadline(is_file ? 60 : 10);
  const ChildOutput tried = try_to_read(source, read, deadline);
  if (tried.text == kRead) return source;
  if (is_file) {
    TopologySource rewritten = source;
    rewritten.xml = rewritten_by_libxml(source.topology, deadline);
    if (!rewritten.xml.empty() && try_to_read(rewritten, read, deadline).text == kRead) return rewritten;
  }
  if (tried.end == ChildOutput::End::done) return source;
  const std::string why = tried.end == ChildOutput::End::late
                              ? format_text("did not finish reading this within {} s", deadline.count())
                              : "crashes when it reads this";
  if (is_file) {
    throw Error(Exit::usage, format_text("--topology {}: hwloc {}", source.topology, why),
                "is it damaged? Make it anew on the other machine with: lstopo FILE.xml");
  }
  throw Error(Exit::usage, format_text("{}: hwloc {}", named(source.topology), why),
              "describe a smaller machine, or one with fewer objects in one place");
}

}  // namespace zf
