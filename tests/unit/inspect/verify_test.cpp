#include "inspect/verify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "../os/cpus.hpp"
#include "../os/tree.hpp"
#include "../plan/make_plan.hpp"
#include "base/error.hpp"
#include "base/format.hpp"

namespace zf {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// Returns a process. Its first thread is the main one.
JobProcess process_of(Side side, int rank, const std::vector<const char*>& threads, int pid = 100,
                      int parent = 1) {
  JobProcess member;
  member.side = side;
  member.rank = rank;
  member.process.pid = pid;
  member.process.parent = parent;
  member.process.name = side == Side::optimizer ? "zf-optimizer" : "python3";
  for (const char* list : threads) {
    member.process.threads.push_back(
        {pid + static_cast<int>(member.process.threads.size()), "thread", cpus(list), Pu{0}, 0});
  }
  return member;
}

JobProcess trainer(const std::vector<const char*>& threads) {
  return process_of(Side::trainer, 0, threads, 100);
}
JobProcess child(const std::vector<const char*>& threads) {
  return process_of(Side::trainer, 0, threads, 200, 100);
}
JobProcess optimizer(const std::vector<const char*>& threads) {
  return process_of(Side::optimizer, 0, threads, 300, 100);
}

/// Returns rank 0 of a plan: home 0-7, training 0-3, pool 4-7.
ProcessBinding bound(Framework framework, StartedOn started_on = StartedOn::home) {
  return {make_rank(0, "0-3", "4-7", "0"), framework, started_on};
}

ProcessBinding shared_home() {
  ProcessBinding binding = bound(Framework::unknown);
  binding.rank.training = {cpus("0-7"), 8};
  binding.rank.shared = true;
  return binding;
}

/// Returns what differs if the processes run under this binding.
std::vector<std::string> said(const ProcessBinding& binding, const std::vector<JobProcess>& job) {
  RankProcesses rank{binding, {}};
  for (const JobProcess& member : job) rank.members.push_back(&member);
  std::vector<std::string> texts;
  for (const Drift& drift : drift_of(rank)) texts.push_back(format_text("{}: {}", drift.pid, drift.what));
  return texts;
}

constexpr const char* kEmptySide = "0: no optimizer process runs, so no process uses CPUs 4-7 of its home";

TEST(Verify, ThreadsThatShareTheirCpusWithNeighboursHaveAllOfThem) {
  ProcessBinding binding = shared_home();
  binding.rank.optimizer.cpus = cpus("0-7");
  binding.rank.optimizer.threads = 2;
  EXPECT_THAT(said(binding, {trainer({"0-7"}), optimizer({"0-7", "0-7", "0-7"})}), IsEmpty());
  EXPECT_THAT(said(binding, {trainer({"0-7"}), optimizer({"0-7", "3"})}),
              ElementsAre("300: may run on 3 only: threads on CPUs that neighbours share have all of 0-7"));
  EXPECT_THAT(said(binding, {trainer({"0-7"}), optimizer({"0-7", "3-9"})}),
              ElementsAre(HasSubstr("may run on 3-9, outside 0-7")));
}

TEST(Verify, AWholeHomeIsAsPlannedBeforeAndAfterItIsNarrowed) {
  for (const Framework framework : {Framework::unknown, Framework::torch, Framework::deepspeed_offload,
                                    Framework::deepspeed_zenflow, Framework::superoffload}) {
    EXPECT_THAT(said(bound(framework), {trainer({"0-7", "0-7"}), child({"0-7"})}), IsEmpty());
    EXPECT_THAT(said(bound(framework), {trainer({"0-3", "0-3"}), optimizer({"4", "5", "6", "7", "4-7"})}),
                IsEmpty());
    EXPECT_THAT(said(bound(framework), {trainer({"0-7", "0-3", "2"}), optimizer({"4", "5", "6", "7"})}),
                IsEmpty())
        << "half way, and a thread that the user pinned";
  }
}

TEST(Verify, AMainThreadThatIsNarrowerThanItsHomeIsNamedAlsoWhereOpenmpsThreadsAreSpread) {
  JobProcess spread = trainer({"0", "2", "4", "6"});
  EXPECT_THAT(
      said(bound(Framework::torch), {spread}),
      ElementsAre("100: has its main thread on 0 only, not on 0-7: so have the data loaders that it starts"));
  EXPECT_THAT(said(shared_home(), {spread}),
              ElementsAre(HasSubstr("has its main thread on 0 only, not on 0-7")));
  EXPECT_THAT(said(bound(Framework::native, StartedOn::training),
                   {trainer({"1", "1"}), optimizer({"4", "5", "6", "7"})}),
              ElementsAre(HasSubstr("has its main thread on 1 only, not on 0-3")));
  EXPECT_THAT(said(bound(Framework::torch), {trainer({"0-3", "4-7"})}),
              ElementsAre(HasSubstr("has its main thread on 0-3 only, not on 0-7")))
      << "not narrowed by our runtime, as no optimizer of it runs";
  spread.openmp = {"OMP_PROC_BIND=close"};
  EXPECT_THAT(said(bound(Framework::torch), {spread}),
              ElementsAre(HasSubstr("OpenMP binds it by OMP_PROC_BIND=close")));
}

TEST(Verify, AMainThreadOfAChildIsNamedIfOpenmpHasBoundIt) {
  const JobProcess shell = trainer({"0-7"});
  EXPECT_THAT(said(bound(Framework::torch), {shell, child({"0", "2", "4", "6"})}),
              ElementsAre(HasSubstr("200: has its main thread on 0 only")));
  JobProcess alone = child({"1"});
  EXPECT_THAT(said(bound(Framework::torch), {shell, alone}), IsEmpty()) << "the user pinned it";
  alone.openmp = {"GOMP_CPU_AFFINITY=1"};
  EXPECT_THAT(said(bound(Framework::torch), {shell, alone}), ElementsAre(HasSubstr("GOMP_CPU_AFFINITY=1")));
}

TEST(Verify, NativeIsConfinedToTheTrainingSide) {
  const ProcessBinding native = bound(Framework::native, StartedOn::training);
  EXPECT_THAT(said(native, {trainer({"0-3", "1"}), optimizer({"4", "5", "6", "7"})}), IsEmpty());
  EXPECT_THAT(said(native, {trainer({"0-7"}), optimizer({"4", "5", "6", "7"})}),
              ElementsAre("100: may run on 0-7, outside 0-3"));
}

TEST(Verify, ASideThatStaysEmptyIsSaid) {
  EXPECT_THAT(said(bound(Framework::unknown), {trainer({"0-3", "0-3"})}), ElementsAre(kEmptySide));
  EXPECT_THAT(said(bound(Framework::native, StartedOn::training), {trainer({"0-3"})}),
              ElementsAre(kEmptySide));
  EXPECT_THAT(said(bound(Framework::unknown), {trainer({"0-3"}), child({"0-7"})}), IsEmpty())
      << "a child uses the rest";
  EXPECT_THAT(said(bound(Framework::unknown), {trainer({"9"})}),
              ElementsAre("100: may run on 9, outside its home 0-7"))
      << "one fault, one line";
}

TEST(Verify, AThreadThatTheUserPinnedIsNamedAndNoFrameworkIsBlamed) {
  EXPECT_THAT(said(bound(Framework::torch), {trainer({"0-7", "6"})}),
              ElementsAre("100: may run on 6, which is neither its home 0-7 nor its training side 0-3"));
  EXPECT_THAT(said(bound(Framework::torch), {trainer({"0-7"}), child({"6"})}),
              ElementsAre("200: may run on 6, which is neither its home 0-7 nor its training side 0-3"));
  EXPECT_THAT(
      said(bound(Framework::unknown), {trainer({"0-3"}), optimizer({"4", "5", "6", "7"}), child({"4"})}),
      ElementsAre("200: may run on 4, which is neither its home 0-7 nor its training side 0-3"));
  EXPECT_THAT(said(bound(Framework::torch), {trainer({"0-7", "5-9"})}),
              ElementsAre("100: may run on 5-9, outside its home 0-7"));
}

TEST(Verify, AFrameworkThatDividesTheHomeAgainIsNamedWithItsChild) {
  EXPECT_THAT(
      said(bound(Framework::unknown), {trainer({"0-1", "0-7"}), child({"2-7", "2-7"})}),
      ElementsAre("100: may run on 0-1 only: a framework has divided the home 0-7 again, as ZenFlow does",
                  "200: may run on 2-7 only: a framework has divided the home 0-7 again, as ZenFlow does"));
  EXPECT_THAT(
      said(bound(Framework::unknown), {trainer({"0-3"}), child({"4-7"})}),
      ElementsAre("200: may run on 4-7 only: a framework has divided the home 0-7 again, as ZenFlow does"))
      << "the training side by chance: no optimizer of ours runs";
  EXPECT_THAT(said(bound(Framework::unknown), {trainer({"0-3", "9"}), child({"4-5"})}),
              ElementsAre("100: may run on 9, outside its home 0-7",
                          "200: may run on 4-5 only: a framework has divided the home 0-7 again, as ZenFlow "
                          "does, and no thread may use 2 CPUs of it (6-7)"));
}

TEST(Verify, ZenFlowMayDivideTheHomeIfItUsesAllOfIt) {
  for (const Framework framework : {Framework::deepspeed_zenflow, Framework::superoffload}) {
    EXPECT_THAT(said(bound(framework), {trainer({"0-1", "0-1"}), child({"2-7", "4"})}), IsEmpty());
    EXPECT_THAT(said(bound(framework), {trainer({"0-1"}), child({"2-5"})}),
                Contains(HasSubstr("no thread may use 2 CPUs of it (6-7)")));
    EXPECT_THAT(said(bound(framework), {trainer({"0-1"}), child({"2-8"})}),
                Contains("200: may run on 2-8, outside its home 0-7"));
  }
}

TEST(Verify, InASharedHomeBothSidesMayOverlap) {
  EXPECT_THAT(said(shared_home(), {trainer({"0-7", "0-7"}), optimizer({"4", "5", "6", "7"})}), IsEmpty());
  EXPECT_THAT(said(shared_home(), {trainer({"0-7"}), optimizer({"4", "5", "6", "3"})}),
              ElementsAre("300: may run on 3, outside 4-7", "300: has no thread of its own on 7"));
}

TEST(Verify, APoolThatLostCpusIsDegradedAndItsBindingIsNotBlamed) {
  ProcessBinding binding{make_rank(0, "0-3", "4-8", "0"), Framework::unknown, StartedOn::home};
  JobProcess pool = optimizer({"9-11", "9-11", "9-11", "9-11", "9-11", "4-8"});
  pool.process.threads.back().name = "zf-trainer";
  pool.process.threads.back().cpus = cpus("9-11");
  pool.available = cpus("0-6,9-11");
  EXPECT_THAT(said(binding, {trainer({"0-3"}), pool}),
              ElementsAre("300: is degraded: CPUs 7-8 of rank 0's pool are gone; its 5 threads run on 9-11"));
  pool.available = cpus("0-11");
  EXPECT_THAT(said(binding, {trainer({"0-3"}), pool}), Contains(HasSubstr("may run on 9-11, outside 4-8")));
  JobProcess less = trainer({"0-2,4-7", "0-2"});
  less.available = cpus("0-2,4-15");
  EXPECT_THAT(said(bound(Framework::unknown), {less, optimizer({"4", "5", "6", "7"})}),
              ElementsAre("100: is degraded: CPU 3 of rank 0's training side is gone"));
}

TEST(Verify, EachProcessIsComparedWithItsOwnBinding) {
  std::vector<JobProcess> job{trainer({"0-7"}), trainer({"0-3"})};
  job[0].binding = bound(Framework::torch);
  job[1].process.pid = 400;
  job[1].binding_fault = "ZF_BINDING: does not begin with zf-binding/1";
  const auto drifts = verify_job(job, {});
  EXPECT_THAT(
      drifts,
      ElementsAre(AllOf(
          testing::Field(&Drift::pid, 400),
          testing::Field(&Drift::what, HasSubstr("cannot be held against its plan: ZF_BINDING: does not")))));
}

/// Returns what differs if each process runs under its rank's binding by make_plan().
std::vector<Drift> drift_as_planned(std::vector<JobProcess> job) {
  for (JobProcess& member : job) member.binding = planned_binding(make_plan(), member.rank);
  return verify_job(job, {});
}

TEST(Verify, ThreadsOnTheirSidesCpusAreAsPlanned) {
  std::vector<JobProcess> job{
      process_of(Side::trainer, 0, {"0,4-11,21-22", "5"}, 1),
      process_of(Side::optimizer, 0, {"23", "24", "25", "26", "30", "23-26,30"}, 2, 1),
      process_of(Side::trainer, 1, {"31-46"}, 3, 0)};
  EXPECT_THAT(drift_as_planned(job), IsEmpty());
  EXPECT_THAT(verification_text(job, {}), HasSubstr("all as planned"));
}

TEST(Verify, AnOptimizerOfAnotherJobFillsNoSide) {
  std::vector<JobProcess> job{process_of(Side::trainer, 0, {"0,4-11,21-22"}, 10, 1),
                              process_of(Side::trainer, 0, {"0,4-11,21-22"}, 20, 1),
                              process_of(Side::optimizer, 0, {"23", "24", "25", "26", "30"}, 21, 20)};
  const auto drifts = drift_as_planned(job);
  EXPECT_THAT(drifts, ElementsAre(testing::Field(&Drift::pid, 0)));
  EXPECT_THAT(
      verification_text(job, drifts),
      HasSubstr(
          "\nrank 0: drift: no optimizer process runs, so no process uses CPUs 23-26,30 of its home\n"));
  EXPECT_THAT(verification_json(job, drifts), HasSubstr("\"pid\": null"));
}

TEST(Verify, AThreadOfOneRankOnAnothersCpus) {
  const auto drifts = drift_as_planned({process_of(Side::trainer, 1, {"31-46", "30-41"})});
  EXPECT_THAT(drifts,
              ElementsAre(AllOf(testing::Field(&Drift::tid, 101), testing::Field(&Drift::rank, 1),
                                testing::Field(&Drift::what, "may run on 30-41, outside its home 31-46"))));
}

TEST(Verify, APoolThatIsNotPinned) {
  const auto drifts = drift_as_planned({process_of(Side::optimizer, 0, {"23", "24", "23-26,30"})});
  EXPECT_THAT(drifts,
              ElementsAre(AllOf(testing::Field(&Drift::tid, 0),
                                testing::Field(&Drift::what, "has no thread of its own on 25-26,30"))));
}

TEST(Verify, MemoryOnOtherNodes) {
  JobProcess member = process_of(Side::trainer, 1, {"31-46"});
  member.memory = MemoryByNode{{Node{0}, kGiB}, {Node{1}, 3 * kGiB}};
  EXPECT_THAT(drift_as_planned({member}),
              ElementsAre(testing::Field(&Drift::what, "has 1 GiB of its 4 GiB on node 0, outside node 1")));
  member.memory = MemoryByNode{{Node{0}, kGiB / 1024}, {Node{1}, kGiB / 1024}};
  EXPECT_THAT(drift_as_planned({member}), IsEmpty()) << "a few pages";
  member.memory = MemoryByNode{{Node{0}, kGiB / 32}, {Node{1}, 64 * kGiB}};
  EXPECT_THAT(drift_as_planned({member}), IsEmpty()) << "a small part";
}

TEST(Verify, MemoryThatAKeptPolicySpreadsIsAsPlanned) {
  ProcessBinding binding = bound(Framework::torch);
  JobProcess member = trainer({"0-7"});
  member.memory = MemoryByNode{{Node{0}, kGiB}, {Node{1}, kGiB}, {Node{2}, kGiB}};
  EXPECT_THAT(said(binding, {member}), ElementsAre(HasSubstr("on nodes 1-2, outside node 0")));
  binding.kept = ThreadPolicy{GivenPolicy::interleave, parse_node_list("0-1", "test")};
  EXPECT_THAT(said(binding, {member}), ElementsAre(HasSubstr("on node 2, outside nodes 0-1")));
}

TEST(Verify, ARankThatThePlanLacks) { EXPECT_THROW(planned_binding(make_plan(), 2), Error); }

TEST(Verify, NamesOfOthersAreMadePlainAndCut) {
  JobProcess member = trainer({"0-7"});
  member.process.name = "a\x1b[2J\n\u202e" + std::string(1 << 20, 'x');
  const Drift drift{0, 100, 101, member.process.name, "may run on " + member.process.name};
  const std::string text = verification_text({member}, {drift});
  EXPECT_LT(text.size(), 20'000U);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find("\u202e"), std::string::npos);
}

/// Adds a process with one thread to a machine's files.
void add_process(Tree& tree, int pid, int parent, const std::string& environment) {
  const std::string folder = format_text("/proc/{}", pid);
  tree.file(folder + "/environ", environment)
      .file(format_text("{}/task/{}/status", folder, pid),
            format_text("Name:\tpython3\nPPid:\t{}\nCpus_allowed_list:\t0-7", parent))
      .file(format_text("{}/task/{}/stat", folder, pid), format_text("{} (python3) S {}", pid, parent));
}

TEST(JobProcesses, HaveTheirOwnBindingAndNotThatOfTheirLauncher) {
  Tree tree;
  tree.machine("0-11", "0")
      .file("/proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw")
      .file("/proc/7/cgroup", "0::/job")
      .file("/sys/fs/cgroup/job/cpuset.cpus.effective", "0-9");
  const auto text = [](const std::string& more) {
    return format_text("ZF_RANK=0{0}ZF_BINDING={1}{0}{2}", '\0', print_binding(bound(Framework::torch)),
                       more);
  };
  add_process(tree, 7, 1, text(""));
  add_process(tree, 8, 7, text(format_text("ZF_RANK_FROM={}LOCAL_RANK=1", '\0')));
  add_process(tree, 9, 7, format_text("ZF_RANK=0{}ZF_BINDING=nonsense", '\0'));
  const auto job = processes_below(tree.sysroot(), 7, {});
  ASSERT_EQ(job.size(), 3U);
  ASSERT_TRUE(job[0].binding);
  EXPECT_EQ(print_binding(*job[0].binding), print_binding(bound(Framework::torch)));
  EXPECT_EQ(job[0].available, cpus("0-9"));
  EXPECT_EQ(job[0].rank, 0);
  EXPECT_EQ(job[1].rank, 1) << "a launcher under zf-tune exec started it";
  EXPECT_EQ(job[1].binding, std::nullopt);
  EXPECT_EQ(job[1].available, cpus("0-11")) << "its control group is not known";
  EXPECT_EQ(job[2].binding_fault.substr(0, 10), "ZF_BINDING");
}

TEST(NumaMaps, CountsWhatIsTheProcessesOwnInItsPageSize) {
  const auto memory = memory_of_numa_maps(
      "5581e000 prefer:1 file=/usr/bin/python3.11 mapped=500 N0=500 kernelpagesize_kB=4\n"
      "5591e000 prefer:1 file=/usr/bin/python3.11 anon=3 dirty=3 N1=3 kernelpagesize_kB=4\n"
      "7f000000 prefer:1 anon=5 dirty=5 active=0 N0=2 N1=3 kernelpagesize_kB=2048\n"
      "7f100000 bind:1 file=/memfd:zf-arena\\040(deleted) dirty=9 N1=9 kernelpagesize_kB=4\n"
      "7f200000 default stack anon=1 dirty=1 N8=1 kernelpagesize_kB=64\n"
      "7f300000 default\n"
      "broken N N= N1 N1=x Nx=1 =\n");
  EXPECT_THAT(memory, ElementsAre(testing::Pair(Node{0}, 2 * 2048U << 10),
                                  testing::Pair(Node{1}, (12 * 4U + 3 * 2048) << 10),
                                  testing::Pair(Node{8}, 64U << 10)));
  EXPECT_THAT(memory_of_numa_maps(""), IsEmpty());
}

}  // namespace
}  // namespace zf
