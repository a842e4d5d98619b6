#include "inspect/doctor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../os/tree.hpp"
#include "../plan/make_plan.hpp"
#include "base/format.hpp"
#include "launchers/core_shortage.hpp"
#include "plan/plan_json.hpp"

namespace zf {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

testing::Matcher<const Finding&> finding(Severity severity, const std::string& what) {
  return AllOf(testing::Field(&Finding::severity, severity), testing::Field(&Finding::what, HasSubstr(what)),
               testing::Field(&Finding::remedy, testing::Not(testing::IsEmpty())));
}

Patient patient_with(const Tree& tree, const char* cpus = "0-3") {
  Patient patient;
  patient.sysroot = tree.sysroot();
  patient.cpus = parse_cpu_list(cpus, "test");
  return patient;
}

Patient patient_with(std::map<std::string, std::string> variables) {
  Patient patient;
  patient.environment = Environment(std::move(variables));
  patient.cpus = parse_cpu_list("0-3", "test");
  return patient;
}

Patient with_plan(Patient patient) {
  patient.plan = make_plan();
  patient.cpus = planned_cpus(*patient.plan);
  return patient;
}

TEST(Doctor, AHealthyNodeHasNoFindings) {
  Tree tree;
  tree.machine("0-3", "0-1")
      .file("/sys/devices/system/node/online", "0-1")
      .file("/proc/sys/kernel/numa_balancing", "0")
      .file("/proc/sys/vm/zone_reclaim_mode", "0")
      .file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
      .file("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
            "always within_size [advise] never deny force")
      .file("/proc/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,nodev,size=263921256k,inode64 0 0")
      .file("/proc/self/limits", "Max locked memory         unlimited            unlimited            bytes")
      .file("/proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/sda2  partition\t8388604\t0\t-2")
      .file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance");
  EXPECT_THAT(examine(patient_with(tree)), IsEmpty());
}

TEST(Doctor, AFolderOfNothingHasNothingToSay) {
  EXPECT_THAT(examine(patient_with(Tree().machine("0", "0"))), IsEmpty());
}

TEST(Doctor, EveryCheckIsNamedOnceAndTheWorstFindingComesFirst) {
  std::set<std::string_view> names;
  for (const Check& check : checks()) EXPECT_TRUE(names.insert(check.name).second) << check.name;
  Tree tree;
  tree.file("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "always [never]");
  Patient patient = patient_with(tree);
  patient.environment = Environment({{"KMP_AFFINITY", "compact"}, {"OMP_NUM_THREADS", "64"}});
  const auto diagnoses = examine(patient);
  std::vector<std::string_view> order;
  for (const Diagnosis& diagnosis : diagnoses) order.push_back(diagnosis.check);
  EXPECT_THAT(order, ElementsAre("openmp", "openmp", "huge-pages"));
  EXPECT_THAT(diagnosis_text(diagnoses), HasSubstr("severe: openmp: KMP_AFFINITY=compact"));
  EXPECT_THAT(diagnosis_text(diagnoses), HasSubstr(format_text("{} checks, 3 findings\n", checks().size())));
  EXPECT_THAT(diagnosis_text({}), HasSubstr("nothing found"));
}

TEST(Doctor, NamesOfOthersAreMadePlain) {
  const std::string text =
      diagnosis_text({{"busy-cpus", {Severity::note, "a\x1b[31m\n\u202e", "wait\u2028\x7f"}}});
  EXPECT_THAT(text, HasSubstr("note: busy-cpus: a [31m  \n    wait  \n"));
}

TEST(DoctorOpenmp, RuntimesThatBindByThemselves) {
  const auto kmp = openmp_findings(patient_with({{"KMP_AFFINITY", "compact"}}));
  EXPECT_THAT(kmp, ElementsAre(finding(Severity::severe, "KMP_AFFINITY=compact")));
  const auto gomp = openmp_findings(patient_with({{"GOMP_CPU_AFFINITY", "0-3"}}));
  EXPECT_THAT(gomp, ElementsAre(finding(Severity::severe, "GOMP_CPU_AFFINITY=0-3")));
  EXPECT_THAT(openmp_findings(patient_with({{"GOMP_CPU_AFFINITY", "0-3"}, {"OMP_PROC_BIND", "False"}})),
              IsEmpty());
  for (const char* const pins_nothing :
       {"verbose,none", "disabled", "granularity=fine,verbose", "none,0,1"}) {
    EXPECT_THAT(openmp_findings(patient_with({{"KMP_AFFINITY", pins_nothing}})),
                ElementsAre(finding(Severity::note, "DeepSpeed's launcher refuses")));
  }
  EXPECT_THAT(openmp_findings(patient_with({{"KMP_AFFINITY", "granularity=fine, Compact,1,0"}})),
              ElementsAre(finding(Severity::severe, "Intel's OpenMP binds")));
  const auto bind = openmp_findings(patient_with({{"OMP_PROC_BIND", "close"}}));
  EXPECT_THAT(bind, ElementsAre(finding(Severity::warning, "OMP_PROC_BIND=close")));
  const auto places = openmp_findings(patient_with({{"OMP_PLACES", "cores"}}));
  EXPECT_THAT(places, ElementsAre(finding(Severity::warning, "OMP_PLACES=cores")));
  EXPECT_THAT(openmp_findings(patient_with({{"OMP_PLACES", "{0},{1}"}})), testing::SizeIs(1));
}

TEST(DoctorOpenmp, WhatExportWritesAndWhatBindsNothingAreFine) {
  EXPECT_THAT(openmp_findings(patient_with({{"OMP_PLACES", "{0,4:8}"}, {"OMP_NUM_THREADS", "4"}})),
              IsEmpty());
  EXPECT_THAT(openmp_findings(patient_with({{"OMP_PROC_BIND", "false"}, {"OMP_PLACES", "cores"}})),
              IsEmpty());
  EXPECT_THAT(openmp_findings(patient_with(std::map<std::string, std::string>())), IsEmpty());
}

TEST(DoctorOpenmp, APlaceMustBeAWholeHomeOfThePlan) {
  EXPECT_THAT(openmp_findings(with_plan(patient_with({{"OMP_PLACES", "{0:2}"}}))),
              ElementsAre(finding(Severity::warning, "OMP_PLACES={0:2}")));
  const auto both = openmp_findings(patient_with({{"OMP_PROC_BIND", "close"}, {"OMP_PLACES", "cores"}}));
  ASSERT_EQ(both.size(), 1U);
  EXPECT_EQ(both.front().remedy, "unset OMP_PROC_BIND OMP_PLACES; zf-tune exec does so for its job");
}

TEST(DoctorMemoryPolicy, OneThatOthersHaveSetIsNamedAndAWarningIfItKeepsARankFromItsNodes) {
  Patient patient = with_plan(patient_with(std::map<std::string, std::string>()));
  EXPECT_THAT(memory_policy_findings(patient), IsEmpty());
  patient.given_policy = ThreadPolicy{GivenPolicy::interleave, parse_node_list("0-1", "test")};
  EXPECT_THAT(memory_policy_findings(patient),
              ElementsAre(finding(Severity::note, "the memory policy interleave on nodes 0-1 is set here")));
  patient.given_policy = ThreadPolicy{GivenPolicy::bind, parse_node_list("0", "test")};
  EXPECT_THAT(memory_policy_findings(patient),
              ElementsAre(finding(Severity::warning, "rank 1 gets no memory on the plan's nodes")));
}

TEST(DoctorOpenmp, ThreadCountsAreHeldAgainstThePlanOrTheCpus) {
  const auto alone = openmp_findings(patient_with({{"OMP_NUM_THREADS", "5"}}));
  EXPECT_THAT(alone, ElementsAre(finding(Severity::warning, "5 threads on 4 allowed CPUs")));
  const auto planned = openmp_findings(with_plan(patient_with({{"MKL_NUM_THREADS", "5"}})));
  EXPECT_THAT(planned,
              ElementsAre(finding(Severity::warning, "MKL_NUM_THREADS=5 overrides the plan's 16 threads")));
}

TEST(DoctorOpenmp, VariablesThatAskForOneNumberAreOneFinding) {
  const auto findings = openmp_findings(with_plan(
      patient_with({{"OMP_NUM_THREADS", "5"}, {"MKL_NUM_THREADS", "16"}, {"OPENBLAS_NUM_THREADS", "5"}})));
  ASSERT_THAT(findings, ElementsAre(finding(Severity::warning,
                                            "OMP_NUM_THREADS=5 and OPENBLAS_NUM_THREADS=5 override the "
                                            "plan's 16 threads")));
  EXPECT_EQ(findings.front().remedy,
            "unset OMP_NUM_THREADS OPENBLAS_NUM_THREADS; zf-tune exec then sets them");
}

TEST(DoctorOpenmp, ThreadCountsAreThoseOfTheHomeUnlessTheFrameworkIsNative) {
  Patient patient = with_plan(patient_with({{"OMP_NUM_THREADS", "16"}}));
  EXPECT_THAT(openmp_findings(patient), IsEmpty());
  patient.plan->workload.framework = Framework::native;
  EXPECT_THAT(openmp_findings(patient),
              ElementsAre(finding(Severity::warning, "OMP_NUM_THREADS=16 overrides the plan's 11 threads")));
  // zf-tune exec --framework torch has bound this process.
  patient.binding = ProcessBinding{make_rank(0, "0-3", "4-7", "0"), Framework::torch, StartedOn::home};
  EXPECT_THAT(openmp_findings(patient),
              ElementsAre(finding(Severity::warning, "OMP_NUM_THREADS=16 overrides the plan's 8 threads")));
}

TEST(DoctorLauncher, WhatExecDidIsNoFault) {
  Patient patient = with_plan(patient_with(std::map<std::string, std::string>()));
  patient.allowed.exclusions = {
      {ExclusionReason::affinity_mask, parse_cpu_list("8-46", "test"), "outside the affinity mask"}};
  EXPECT_THAT(launcher_findings(patient), testing::SizeIs(1));
  patient.binding = ProcessBinding{make_rank(0, "0-3", "4-7", "0"), Framework::torch, StartedOn::home};
  EXPECT_THAT(launcher_findings(patient), IsEmpty());
  patient.allowed.exclusions.front().cpus = parse_cpu_list("7-46", "test");
  EXPECT_THAT(launcher_findings(patient), ElementsAre(finding(Severity::severe, "CPU 7 of the plan")));
  patient.binding->started_on = StartedOn::training;
  EXPECT_THAT(launcher_findings(patient), IsEmpty());
}

JobProcess job_process(int pid, int parent, const char* cpus, Framework framework, bool shared = false) {
  JobProcess member;
  member.process.pid = pid;
  member.process.parent = parent;
  member.process.name = "python3";
  member.process.threads = {{pid, "python3", parse_cpu_list(cpus, "test"), Pu{0}, 0}};
  member.binding = ProcessBinding{make_rank(0, "0-3", "4-7", "0"), framework, StartedOn::home};
  if (shared) {
    member.binding->rank.training.cpus = member.binding->rank.home.cpus;
    member.binding->rank.shared = true;
  }
  return member;
}

TEST(DoctorDividedHomes, AFrameworkThatDividesAMaskAgainIsNamedWithItsChild) {
  Patient patient = patient_with(std::map<std::string, std::string>());
  patient.job = {job_process(10, 1, "0-1", Framework::unknown),
                 job_process(11, 10, "2-5", Framework::unknown)};
  const auto divided = divided_home_findings(patient);
  ASSERT_THAT(divided,
              ElementsAre(finding(Severity::warning, "python3 (process 10, rank 0) may run on 0-1 only"),
                          finding(Severity::warning, "no thread may use 2 CPUs of it (6-7)")));
  EXPECT_THAT(divided.front().remedy, AllOf(HasSubstr("export --for deepspeed"), HasSubstr("native")));
}

TEST(DoctorDividedHomes, WholeHomesAndSharedOnesAndZenFlowsOwnAreFine) {
  Patient patient = patient_with(std::map<std::string, std::string>());
  patient.job = {job_process(10, 1, "0-7", Framework::unknown),
                 job_process(11, 10, "4-7", Framework::unknown),
                 job_process(12, 1, "0-7", Framework::unknown, true),
                 job_process(13, 1, "0-1", Framework::deepspeed_zenflow),
                 job_process(14, 13, "2-7", Framework::deepspeed_zenflow)};
  JobProcess pool = job_process(15, 12, "4-7", Framework::unknown, true);
  pool.side = Side::optimizer;
  patient.job.push_back(pool);
  EXPECT_THAT(divided_home_findings(patient), IsEmpty());
}

TEST(DoctorLauncher, AMaskNarrowerThanTheCpuset) {
  Patient patient = patient_with({{"SLURM_JOB_ID", "7"}});
  EXPECT_THAT(launcher_findings(patient), IsEmpty());
  patient.allowed.exclusions = {{ExclusionReason::cgroup_cpuset, parse_cpu_list("8-9", "test"), "outside"}};
  EXPECT_THAT(launcher_findings(patient), IsEmpty());
  patient.allowed.exclusions.push_back(
      {ExclusionReason::affinity_mask, parse_cpu_list("2,20", "test"), "outside the affinity mask"});
  const auto bound = launcher_findings(patient);
  EXPECT_THAT(bound, ElementsAre(finding(Severity::warning, "CPUs 2,20 are outside the affinity mask")));
  EXPECT_THAT(bound.front().remedy, HasSubstr("--cpu-bind=none"));
  patient = with_plan(patient);
  EXPECT_THAT(launcher_findings(patient), IsEmpty()) << "the plan does not use CPUs 2 and 20";
  patient.allowed.exclusions.back().cpus = parse_cpu_list("3-5", "test");
  EXPECT_THAT(launcher_findings(patient), ElementsAre(finding(Severity::severe, "CPUs 4-5 of the plan")));
}

TEST(DoctorCores, FewerCoresThanRanksAreSevereAndFewAreAWarning) {
  Patient patient = patient_with({{"SLURM_JOB_ID", "7"}});
  EXPECT_THAT(core_findings(patient), IsEmpty()) << "how many ranks there are is not known";
  patient.ranks = 8;
  patient.cores = 2;
  patient.allowed.more_cpus = "srun --cpu-bind=none";
  const auto findings = core_findings(patient);
  EXPECT_THAT(findings, ElementsAre(finding(Severity::severe, "8 ranks have 2 cores")));
  const Error error = too_few_cores(8, 2, patient.allowed);
  EXPECT_EQ(error.what(), findings[0].what + "; " + findings[0].remedy)
      << "the command's error says the same";
  patient.cores = 8;
  EXPECT_THAT(core_findings(patient), ElementsAre(finding(Severity::warning, "8 ranks have 8 cores")));
  patient.binding = ProcessBinding{make_rank(0, "0-3", "4-7", "0"), Framework::torch, StartedOn::home};
  EXPECT_THAT(core_findings(patient), IsEmpty()) << "exec has told rank 0";
}

TEST(DoctorQuota, ThrottlingIsSeenInBothVersions) {
  Tree two;
  two.file("/proc/self/cgroup", "0::/job")
      .file("/proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw")
      .file("/sys/fs/cgroup/job/cpu.stat", "usage_usec 5\nnr_periods 100\nnr_throttled 40\nthrottled_usec 9");
  EXPECT_THAT(quota_findings(patient_with(two)),
              ElementsAre(finding(Severity::warning, "in 40 of 100 periods")));

  Tree one;
  one.file("/proc/self/cgroup", "3:cpu,cpuacct:/job")
      .file("/proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct")
      .file("/sys/fs/cgroup/cpu/job/cpu.stat", "nr_periods 1000\nnr_throttled 1\nthrottled_time 9");
  EXPECT_THAT(quota_findings(patient_with(one)),
              ElementsAre(finding(Severity::note, "/sys/fs/cgroup/cpu/job/cpu.stat")));
  one.file("/sys/fs/cgroup/cpu/job/cpu.stat", "nr_periods 1000\nnr_throttled 0\nthrottled_time 0");
  EXPECT_THAT(quota_findings(patient_with(one)), IsEmpty());
}

TEST(DoctorQuota, APlanOfMoreThreadsThanTheQuota) {
  Patient patient = with_plan(patient_with(std::map<std::string, std::string>()));  // 16 threads per rank
  patient.allowed.cpu_quota = 31.5;
  patient.allowed.cpu_quota_path = "/sys/fs/cgroup/job/cpu.max";
  const auto same = quota_findings(patient);
  EXPECT_THAT(same, ElementsAre(finding(Severity::warning,
                                        "32 threads at once, and /sys/fs/cgroup/job/cpu.max "
                                        "allows the time of 31.5")));
  EXPECT_THAT(same[0].remedy, testing::Not(HasSubstr("make the plan again")))
      << "it was made under this quota";
  patient.plan->allocation.cpu_quota = std::nullopt;
  EXPECT_THAT(quota_findings(patient)[0].remedy, HasSubstr("or make the plan again"));
  patient.allowed.cpu_quota = 32;
  EXPECT_THAT(quota_findings(patient), IsEmpty());
}

TEST(DoctorQuota, SiblingsThatRunNoThreadTakeNoTime) {
  Patient patient = with_plan(patient_with(std::map<std::string, std::string>()));
  RankBinding smt = make_rank(0, "0-7", "8-11", "0");  // four cores of two PUs train, one thread on each
  smt.training.threads = 4;
  patient.plan->ranks = {smt};
  patient.allowed.cpu_quota = 8;
  EXPECT_THAT(quota_findings(patient), IsEmpty()) << "12 CPUs, and 8 threads";
  RankBinding shared = make_rank(0, "0-7", "0-7", "0");
  shared.shared = true;
  patient.plan->ranks = {shared};
  EXPECT_THAT(quota_findings(patient), IsEmpty()) << "both sides on the same 8 CPUs";
}

TEST(DoctorNeighbours, ShareTheCpusUnderAQuotaWithoutACpuset) {
  Patient patient = patient_with(std::map<std::string, std::string>());
  EXPECT_THAT(neighbour_findings(patient), IsEmpty());
  patient.allowed.shared_cpus = true;
  patient.allowed.cpu_quota = 8;
  patient.allowed.cpu_quota_path = "/sys/fs/cgroup/job/cpu.max";
  EXPECT_THAT(neighbour_findings(patient),
              ElementsAre(finding(Severity::note, "neighbours share these CPUs")));
  patient = with_plan(std::move(patient));
  EXPECT_THAT(neighbour_findings(patient), ElementsAre(finding(Severity::warning, "the plan pins threads")));
  patient.plan->allocation.shared_cpus = true;
  EXPECT_THAT(neighbour_findings(patient), ElementsAre(finding(Severity::note, "the plan pins no thread")));
}

TEST(DoctorGpus, AreFarIfNoAllowedCpuIsNear) {
  Patient patient = patient_with(std::map<std::string, std::string>());
  patient.allowed.cpus = parse_cpu_list("4-7", "test");
  EXPECT_EQ(cpus_in_a_line(patient), "CPUs 4-7: all of this node's, without a quota");
  patient.gpus = {{"0000:10:00.0", parse_cpu_list("7-9", "test")}, {"0000:20:00.0", {}}};
  EXPECT_THAT(far_gpu_findings(patient), IsEmpty()) << "where the second GPU is, is not known";
  EXPECT_THAT(cpus_in_a_line(patient), HasSubstr("; which CPUs are near its GPUs is not known"));
  patient.gpus["0000:10:00.0"] = parse_cpu_list("0-3", "test");
  EXPECT_THAT(far_gpu_findings(patient),
              ElementsAre(finding(Severity::warning, "CPUs 4-7 are not near GPU 0000:10:00.0")));
  EXPECT_EQ(cpus_in_a_line(patient),
            "CPUs 4-7: all of this node's, without a quota; far from GPU 0000:10:00.0");
}

TEST(Doctor, CpusOfAPodWithoutAQuotaMayBeThoseOfTheSharedPool) {
  Patient patient = patient_with({{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}});
  patient.allowed.cpus = parse_cpu_list("4-7", "test");
  EXPECT_EQ(cpus_in_a_line(patient), "CPUs 4-7: all of this node's, without a quota");
  patient.allowed.exclusions = {{ExclusionReason::cgroup_cpuset, parse_cpu_list("0-3", "test"), ""}};
  EXPECT_EQ(cpus_in_a_line(patient),
            "CPUs 4-7: this job's own if its pod is Guaranteed with whole CPUs, else shared (no quota)");
}

TEST(DoctorSystemCalls, RefusedBindingIsWorseThanRefusedMemoryPolicy) {
  Patient patient;
  patient.refused_calls = {"mbind(preferred) was refused: EPERM", "sched_setaffinity: EPERM"};
  EXPECT_THAT(system_call_findings(patient),
              ElementsAre(finding(Severity::warning, "mbind"),
                          finding(Severity::severe, "no plan can be carried out")));
}

TEST(DoctorMemory, SharedMemoryTooSmall) {
  Tree tree;
  tree.file("/proc/mounts", "tmpfs /dev/shm tmpfs rw,size=1g 0 0\nshm /dev/shm tmpfs rw,size=65536k 0 0");
  EXPECT_THAT(shared_memory_findings(patient_with(tree)), ElementsAre(finding(Severity::warning, "64 MiB")))
      << "the later mount covers the earlier one";
  tree.file("/proc/mounts", "tmpfs /dev/shm tmpfs rw,size=2g 0 0");
  EXPECT_THAT(shared_memory_findings(patient_with(tree)), IsEmpty());
  EXPECT_THAT(shared_memory_findings(with_plan(patient_with(tree))),
              ElementsAre(finding(Severity::warning, "3.09B parameters")));
  tree.file("/proc/mounts", "tmpfs /dev/shm tmpfs rw,nosuid 0 0");
  EXPECT_THAT(shared_memory_findings(patient_with(tree)), IsEmpty())
      << "half of memory, the kernel's default";
  tree.file("/proc/mounts", "proc /proc proc rw 0 0");
  EXPECT_THAT(shared_memory_findings(patient_with(tree)),
              ElementsAre(finding(Severity::warning, "not mounted")));
}

TEST(DoctorMemory, AJobRunsIfAProcessHasABindingOfThePlan) {
  Patient patient = with_plan(patient_with(std::map<std::string, std::string>()));
  EXPECT_FALSE(plans_job_runs(patient));
  patient.job = {job_process(10, 1, "0-1", Framework::native)};
  EXPECT_FALSE(plans_job_runs(patient)) << "the job of another plan";
  patient.job[0].binding->plan_id = plan_id(*patient.plan);
  EXPECT_TRUE(plans_job_runs(patient));
  patient.plan.reset();
  EXPECT_FALSE(plans_job_runs(patient));
}

TEST(DoctorMemory, LockedMemoryIsLimited) {
  Tree tree;
  tree.file("/proc/self/limits",
            "Max processes             1  2  processes\nMax locked memory         65536     65536    bytes");
  EXPECT_THAT(locked_memory_findings(patient_with(tree)),
              ElementsAre(finding(Severity::note, "at most 65536 bytes")));
}

TEST(DoctorKernel, HugePages) {
  Tree tree;
  tree.file("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]")
      .file("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
            "always within_size advise never [deny] force");
  EXPECT_THAT(huge_page_findings(patient_with(tree)),
              ElementsAre(finding(Severity::warning, "never"), finding(Severity::note, "deny")));
}

TEST(DoctorKernel, NumaSettingsMatterOnSeveralNodesOnly) {
  Tree tree;
  tree.file("/proc/sys/kernel/numa_balancing", "1")
      .file("/proc/sys/vm/zone_reclaim_mode", "1")
      .file("/sys/devices/system/node/online", "0,8");
  EXPECT_THAT(numa_findings(patient_with(tree)), ElementsAre(finding(Severity::warning, "numa_balancing"),
                                                             finding(Severity::note, "zone_reclaim_mode")));
  tree.file("/sys/devices/system/node/online", "0");
  EXPECT_THAT(numa_findings(patient_with(tree)), IsEmpty());
}

TEST(DoctorKernel, GovernorOfThePlansCpus) {
  Tree tree;
  for (const int cpu : {0, 1, 5}) {
    tree.file(format_text("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor", cpu), "powersave");
  }
  EXPECT_THAT(governor_findings(patient_with(tree, "0-3")),
              ElementsAre(finding(Severity::warning, "CPUs 0-1 run")));
  EXPECT_THAT(governor_findings(patient_with(tree, "2-3")), IsEmpty());
}

TEST(DoctorKernel, UsedSwap) {
  Tree tree;
  tree.file("/proc/swaps",
            "Filename Type Size Used Priority\n/swap file 4194304 2097152 -2\n/s2 file 100 1048576 -3");
  EXPECT_THAT(swap_findings(patient_with(tree)),
              ElementsAre(finding(Severity::warning, "3 GiB of memory are in swap")));
}

/// Adds a thread of a process as /proc shows it. The name in `stat` looks like the end of the name field.
void add_thread(Tree& tree, int pid, int tid, const char* cpus, int ticks, int last_cpu) {
  const std::string folder = format_text("/proc/{}/task/{}", pid, tid);
  tree.file(folder + "/status", format_text("Name:\tpt) R 1\nPPid:\t1\nCpus_allowed_list:\t{}", cpus));
  tree.file(folder + "/stat",
            format_text(
                "{} (pt) R 1) S 1 1 1 0 -1 4194560 1 2 3 4 {} 0 0 0 20 0 1 0 5 6 7 8 9 10 11 12 13 14 15 16 "
                "17 18 19 20 21 {} 0 0",
                tid, ticks, last_cpu));
}

Patient keeping(const Tree& tree, uid_t user = 1000) {
  Patient patient = patient_with(tree);
  patient.environment = Environment(std::map<std::string, std::string>{{"ZF_KEEP", "run7"}});
  patient.kept = KeptHere{.folder = "/dev/shm/zf-kept-1000"};
  patient.user = user;
  return patient;
}

TEST(DoctorKept, RanksOfANameAreOneFindingUnlessATrainerHasThem) {
  Patient patient = patient_with(Tree());
  EXPECT_THAT(kept_findings(patient), IsEmpty()) << "another machine";
  const auto kept = [](const char* name, int rank, int trainer, std::int64_t left_ms) {
    return KeptRank{{name, rank}, {.trainer = trainer, .bytes = std::uint64_t{3} << 30, .left_ms = left_ms}};
  };
  patient.kept = KeptHere{.folder = "/x",
                          .ranks = {kept("a", 0, 0, 9000), kept("a", 1, 0, 8999), kept("b", 0, 17, 600000)}};
  EXPECT_THAT(kept_findings(patient), ElementsAre(finding(Severity::note,
                                                          "a is kept of a trainer that has "
                                                          "ended: 6 GiB of memory, for another 9 s")));
  patient.kept = KeptHere{.folder = "/x", .silent = {{"a", 1}}};
  EXPECT_THAT(kept_findings(patient),
              ElementsAre(finding(Severity::warning, "keeps a, rank 1 does not answer")));
}

TEST(DoctorKept, LogindRemovesTheFolderAtTheLastLogoutOfAUserWhoDoesNotLinger) {
  Tree tree;
  tree.file("/usr/lib/systemd/logind.conf", "[Login]\n#RemoveIPC=yes\n")
      .file("/run/systemd/users/1000", "# private\nNAME=ann\nSTATE=active");
  const auto removed =
      ElementsAre(finding(Severity::warning, "your last logout removes /dev/shm/zf-kept-1000"));
  EXPECT_THAT(kept_findings(keeping(tree)), removed) << "the default that a comment names";
  EXPECT_THAT(kept_findings(keeping(tree, 1001)), IsEmpty()) << "logind does not know this user";
  Patient elsewhere = keeping(tree);
  elsewhere.kept->folder = "/home/ann/kept";
  EXPECT_THAT(kept_findings(elsewhere), IsEmpty());
  Patient without = keeping(tree);
  without.environment = {};
  EXPECT_THAT(kept_findings(without), IsEmpty()) << "nothing is kept, and nothing is meant to be";
  tree.file("/etc/systemd/logind.conf.d/b.conf", "[Login]\nRemoveIPC = no")
      .file("/run/systemd/logind.conf.d/b.conf", "[Login]\nRemoveIPC=yes");
  EXPECT_THAT(kept_findings(keeping(tree)), IsEmpty()) << "that of /etc counts";
  tree.file("/run/systemd/logind.conf.d/c.conf", "[Login]\nRemoveIPC=1");
  EXPECT_THAT(kept_findings(keeping(tree)), removed) << "the later name counts";
  tree.file("/var/lib/systemd/linger/ann", "");
  EXPECT_THAT(kept_findings(keeping(tree)), IsEmpty());
}

TEST(DoctorKept, LogindEndsTheProcessesOfASession) {
  Tree tree;
  tree.file("/etc/systemd/logind.conf", "[Login]\nKillUserProcesses=yes\n#KillOnlyUsers=\n")
      .file("/proc/self/cgroup", "0::/user.slice/user-1000.slice/session-4.scope");
  EXPECT_THAT(kept_findings(keeping(tree)), ElementsAre(finding(Severity::warning, "KillUserProcesses")));
  EXPECT_THAT(kept_findings(keeping(tree, 0)), IsEmpty()) << "root is spared";
  tree.file("/proc/self/cgroup", "0::/user.slice/user-1000.slice/user@1000.service/run-7.scope");
  EXPECT_THAT(kept_findings(keeping(tree)), IsEmpty());
}

TEST(DoctorKept, ListsOfUsersCountBeforeKillUserProcesses) {
  Tree tree;
  tree.file("/etc/systemd/logind.conf", "[Login]\nKillOnlyUsers=bob ann\n")
      .file("/proc/self/cgroup", "0::/user.slice/user-1000.slice/session-4.scope")
      .file("/run/systemd/users/1000", "NAME=ann")
      .file("/run/systemd/users/1001", "NAME=eve");
  const auto killed = ElementsAre(finding(Severity::warning, "KillOnlyUsers"));
  EXPECT_THAT(kept_findings(keeping(tree)), killed);
  EXPECT_THAT(kept_findings(keeping(tree, 1001)), IsEmpty());
  tree.file("/etc/systemd/logind.conf.d/a.conf", "[Login]\nKillExcludeUsers=ann");
  EXPECT_THAT(kept_findings(keeping(tree)), IsEmpty());
  tree.file("/etc/systemd/logind.conf.d/b.conf", "KillExcludeUsers=\nKillExcludeUsers=bob");
  EXPECT_THAT(kept_findings(keeping(tree)), killed) << "an empty value forgets those before it";
  tree.file("/etc/systemd/logind.conf", "[Login]\nKillUserProcesses=Yes\n");
  EXPECT_THAT(kept_findings(keeping(tree, 1001)), killed) << "the exclusion of others";
  EXPECT_THAT(kept_findings(keeping(tree, 0)), killed) << "root is spared unless others are";
}

TEST(DoctorKept, TheDefaultStandsInAMainFileThatCountsNot) {
  Tree tree;
  tree.file("/etc/systemd/logind.conf", "[Login]\nKillUserProcesses=no\n")
      .file("/usr/lib/systemd/logind.conf", "[Login]\n#RemoveIPC=yes\n")
      .file("/run/systemd/users/1000", "NAME=ann");
  EXPECT_THAT(kept_findings(keeping(tree)), ElementsAre(finding(Severity::warning, "RemoveIPC")));
}

TEST(DoctorKept, TheFolderOfASessionGoesWithTheLastOne) {
  Tree tree;
  Patient patient = keeping(tree);
  patient.kept->folder = "/run/user/1000/kept";
  EXPECT_THAT(kept_findings(patient), IsEmpty()) << "logind does not know this user";
  tree.file("/run/systemd/users/1000", "NAME=ann");
  EXPECT_THAT(kept_findings(patient),
              ElementsAre(finding(Severity::warning, "your last logout removes /run/user/1000/kept,")));
}

TEST(DoctorKept, ANameOrAFolderThatIsRefusedIsNamed) {
  Patient patient = keeping(Tree());
  patient.environment = Environment(std::map<std::string, std::string>{{"ZF_KEEP", "my run"}});
  EXPECT_THAT(kept_findings(patient), ElementsAre(finding(Severity::severe, "is no name to keep an arena")));
  patient = keeping(Tree());
  patient.kept->folder = "/" + std::string(110, 'x');
  EXPECT_THAT(kept_findings(patient), ElementsAre(finding(Severity::severe, "is too long for a socket")));
}

TEST(DoctorKept, AGroupOfWhichAllDieTogetherHasNoKeeperLeft) {
  Tree tree;
  tree.file("/proc/self/cgroup", "0::/pod/one")
      .file("/proc/self/mountinfo", "30 25 0:31 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw")
      .file("/sys/fs/cgroup/cgroup.controllers", "memory")
      .file("/sys/fs/cgroup/pod/cgroup.controllers", "memory")
      .file("/sys/fs/cgroup/pod/one/cgroup.controllers", "memory")
      .file("/sys/fs/cgroup/pod/one/memory.oom.group", "0")
      .file("/sys/fs/cgroup/pod/memory.oom.group", "1");
  EXPECT_THAT(kept_findings(keeping(tree)),
              ElementsAre(finding(Severity::note, "/sys/fs/cgroup/pod/memory.oom.group is 1")));
  tree.file("/sys/fs/cgroup/pod/memory.oom.group", "0");
  EXPECT_THAT(kept_findings(keeping(tree)), IsEmpty());
}

TEST(DoctorLateBinding, ThreadsThatKeptTheOldMask) {
  Tree tree;
  add_thread(tree, 100, 100, "0-1", 0, 0);
  add_thread(tree, 100, 101, "0-63", 0, 7);
  add_thread(tree, 100, 102, "0-63", 0, 8);
  add_thread(tree, 200, 200, "0-1", 0, 0);
  add_thread(tree, 200, 201, "1", 0, 0);
  Patient patient = patient_with(tree);
  patient.after = sample_activity(patient.sysroot, 0, {});
  const auto findings = late_binding_findings(patient);
  EXPECT_THAT(findings, ElementsAre(finding(Severity::warning,
                                            "(process 100) was bound late: its main thread to CPUs 0-1, "
                                            "while 2 of its threads may still run on CPUs 0-63")));
  patient.cpus = parse_cpu_list("8-9", "test");
  EXPECT_THAT(late_binding_findings(patient), IsEmpty()) << "on other CPUs";
}

TEST(DoctorLateBinding, ZfTuneBindsItsOwnThreadsWhereItMeasures) {
  Tree tree;
  for (const int tid : {100, 101}) {
    add_thread(tree, 100, tid, tid == 100 ? "0-1" : "0-63", 0, 0);
    tree.file(format_text("/proc/100/task/{}/status", tid),
              format_text("Name:\tzf-tune\nPPid:\t1\nCpus_allowed_list:\t{}", tid == 100 ? "0-1" : "0-63"));
  }
  Patient patient = patient_with(tree);
  patient.after = sample_activity(patient.sysroot, 0, {});
  EXPECT_THAT(late_binding_findings(patient), IsEmpty());
}

TEST(DoctorBusy, TwoSamplesOfTheSameThreads) {
  const int ticks_per_s = static_cast<int>(sysconf(_SC_CLK_TCK));
  Tree tree;
  add_thread(tree, 100, 100, "0-3", 50, 2);
  add_thread(tree, 400, 400, "0-9", 50, 9);
  Patient patient = patient_with(tree);
  patient.before = sample_activity(patient.sysroot, 0, {});
  EXPECT_THAT(busy_findings(patient), IsEmpty());
  for (const int pid : {100, 400}) add_thread(tree, pid, pid, "0-9", 50 + ticks_per_s, pid == 400 ? 9 : 2);
  patient.after = sample_activity(patient.sysroot, 0, {});
  patient.after.at_ns = patient.before.at_ns + 2 * kSecondNs;
  EXPECT_THAT(busy_findings(patient),
              ElementsAre(finding(Severity::warning, "(process 100) takes 50 % of CPU 2")))
      << "400 ran elsewhere";
  patient.after.at_ns = patient.before.at_ns + 20 * kSecondNs;
  EXPECT_THAT(busy_findings(patient), IsEmpty()) << "5 %";
}

void set_environment(Tree& tree, int pid, const std::vector<std::string>& variables) {
  std::string text;
  for (const std::string& variable : variables) text += variable + '\0';
  tree.file(format_text("/proc/{}/environ", pid), text);
}

/// Returns the processes that do not belong to this job.
std::vector<int> others(const Tree& tree, const OwnJob& own) {
  std::vector<int> pids;
  for (const ProcessState& process : sample_activity(tree.sysroot(), 0, own).processes)
    pids.push_back(process.pid);
  return pids;
}

TEST(DoctorBusy, OnlyTheProcessesOfThisJobOrOfThisPlanAreItsOwn) {
  Tree tree;
  for (const int pid : {100, 200, 300, 400}) add_thread(tree, pid, pid, "0-3", 0, 2);
  set_environment(tree, 100, {"A=1", "SLURM_JOB_ID=7", "ZF_PLAN=/run/zf-tune/7.json"});
  set_environment(tree, 200, {"ZF_RANK=0", "SLURM_JOB_ID=7", "ZF_PLAN=/proc/200/fd/3"});
  set_environment(tree, 300, {"ZF_RANK=0", "SLURM_JOB_ID=8", "ZF_PLAN=/home/me/plan.json"});
  set_environment(tree, 400, {"ZF_RANK=1", "ZF_PLAN=/home/me/old.json"});
  EXPECT_THAT(others(tree, {}), ElementsAre(100, 200, 300, 400)) << "no job is known";
  EXPECT_THAT(others(tree, {"7", {}}), ElementsAre(100, 300, 400)) << "exec may have retargeted the plan";
  EXPECT_THAT(others(tree, {{}, "/home/me/plan.json"}), ElementsAre(100, 200, 400));
  EXPECT_THAT(others(tree, {"7", "/home/me/plan.json"}), ElementsAre(100, 300, 400))
      << "another job under the same plan is in the way";
}

TEST(DoctorBusy, ALeftOverOfAnEarlierRunIsNamedAndNotTakenForBoundLate) {
  const int ticks_per_s = static_cast<int>(sysconf(_SC_CLK_TCK));
  Tree tree;
  add_thread(tree, 100, 100, "2", 0, 2);
  add_thread(tree, 100, 101, "0-3", 0, 2);
  set_environment(tree, 100, {"ZF_RANK=0", "ZF_PLAN=/home/me/old.json"});
  Patient patient = patient_with(tree);
  patient.before = sample_activity(patient.sysroot, 0, {{}, "/home/me/plan.json"});
  add_thread(tree, 100, 100, "2", ticks_per_s, 2);
  patient.after = sample_activity(patient.sysroot, 0, {{}, "/home/me/plan.json"});
  patient.after.at_ns = patient.before.at_ns + kSecondNs;
  EXPECT_THAT(
      busy_findings(patient),
      ElementsAre(finding(Severity::warning, "(process 100, started by zf-tune exec) takes 100 % of CPU 2")));
  EXPECT_THAT(late_binding_findings(patient), IsEmpty());
}

TEST(DoctorInterrupts, DevicesOnThePlansCpus) {
  const auto interrupts = [](int nic, int disk) {
    return format_text(
        "           CPU0       CPU3       CPU8\n 36:  5 {} 7  PCI-MSIX-0000:c1:00.0 1-edge  mlx5_comp3\n"
        " 37:  1 2 {}  PCI-MSIX nvme0q9\nLOC: 1 {} 3  Local timer interrupts\nERR: 0",
        nic, disk, nic);
  };
  Tree tree;
  tree.file("/proc/interrupts", interrupts(100, 100));
  Patient patient = patient_with(tree);
  patient.before = sample_activity(patient.sysroot, 0, {});
  tree.file("/proc/interrupts", interrupts(100 + 30000, 100 + 30000));
  patient.after = sample_activity(patient.sysroot, 0, {});
  patient.after.at_ns = patient.before.at_ns + 10 * kSecondNs;
  EXPECT_THAT(interrupt_findings(patient),
              ElementsAre(finding(Severity::warning,
                                  "interrupt 36 (mlx5_comp3) arrives 3000 times a second on CPU 3")));
  patient.after.at_ns = patient.before.at_ns + 100 * kSecondNs;
  EXPECT_THAT(interrupt_findings(patient), IsEmpty());
}

TEST(DoctorClock, CoresThatMayNotRunAsFastAsTheFirmwarePromises) {
  Tree tree;
  for (const auto& [cpu, limit] :
       {std::pair("0", "3500000"), {"1", "1200000"}, {"2", "1200000"}, {"3", "3400000"}}) {
    const std::string folder = format_text("/sys/devices/system/cpu/cpu{}/cpufreq/", cpu);
    tree.file(folder + "scaling_max_freq", limit).file(folder + "cpuinfo_max_freq", "3500000");
  }
  const auto found = clock_limit_findings(patient_with(tree));
  EXPECT_THAT(found, ElementsAre(finding(Severity::warning, "CPUs 1-2 may run at 1.20 GHz at most")));
  EXPECT_THAT(found[0].what, HasSubstr("the firmware promises 3.50 GHz"));
  EXPECT_EQ(found[0].remedy, "cpupower -c 1-2 frequency-set -u 3500000kHz");
  EXPECT_THAT(clock_limit_findings(patient_with(tree, "0,3")), IsEmpty()) << "other CPUs are no matter";
}

TEST(DoctorClock, PreferredCoresThatTheSchedulerDoesNotPrefer) {
  Tree tree;
  tree.file("/sys/devices/system/cpu/cpu0/acpi_cppc/highest_perf", "60");
  tree.file("/sys/devices/system/cpu/cpu1/acpi_cppc/highest_perf", "50");
  EXPECT_THAT(clock_limit_findings(patient_with(tree)), IsEmpty()) << "this kernel has no such switch";
  tree.file("/proc/sys/kernel/sched_itmt_enabled", "1");
  EXPECT_THAT(clock_limit_findings(patient_with(tree)), IsEmpty());
  tree.file("/proc/sys/kernel/sched_itmt_enabled", "0");
  EXPECT_THAT(clock_limit_findings(patient_with(tree)),
              ElementsAre(finding(Severity::note, "kernel.sched_itmt_enabled is 0")));
  EXPECT_THAT(clock_limit_findings(patient_with(tree, "1")), IsEmpty()) << "one core has no preference";
  tree.file("/proc/sys/kernel/sched_itmt_enabled", "1");
  tree.file("/sys/devices/system/cpu/amd_pstate/prefcore", "enabled");
  EXPECT_THAT(clock_limit_findings(patient_with(tree)), IsEmpty());
  tree.file("/sys/devices/system/cpu/amd_pstate/prefcore", "disabled");
  EXPECT_THAT(clock_limit_findings(patient_with(tree)),
              ElementsAre(finding(Severity::note, "amd_pstate/prefcore is disabled")));
}

TEST(DoctorClock, TurboThatTheKernelDoesNotGive) {
  for (const auto& [file, off, on] :
       {std::tuple("intel_pstate/no_turbo", "1", "0"), {"cpufreq/boost", "0", "1"}}) {
    Tree tree;
    const std::string path = std::string("/sys/devices/system/cpu/") + file;
    tree.file(path, on);
    EXPECT_THAT(clock_limit_findings(patient_with(tree)), IsEmpty());
    tree.file(path, off);
    const auto found = clock_limit_findings(patient_with(tree));
    ASSERT_THAT(found, ElementsAre(finding(Severity::warning, path + " is " + off)));
    EXPECT_EQ(found[0].remedy, std::string("echo ") + on + " > " + path);
  }
}

}  // namespace
}  // namespace zf
