"""zf_runtime.bind() in a guest with two NUMA nodes: in the control groups of a pod, where memory has a place, and where
each GPU is near another node."""

import json
import pathlib
import subprocess

import guest
from zf_cli import BINARY, DONE, LIBRARY, SOURCE, CommandTest

PACKAGE = SOURCE / "runtime/python/zf_runtime"
MODULES = ("import json, os, sys, threading, zf_runtime; zf_runtime.bind; "
           "from zf_runtime.binding import memory, moved_threads")

# What kubelet makes for a pod of two exclusive CPUs on each node, and the container inside, which has it as its root.
POD = """
echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
pod=/sys/fs/cgroup/kubepods.slice/kubepods-pod0b5e.slice/cri-containerd-4711.scope
mkdir -p $pod
for group in kubepods.slice kubepods.slice/kubepods-pod0b5e.slice; do
  echo +cpuset >/sys/fs/cgroup/$group/cgroup.subtree_control
done
echo 2-5 >$pod/cpuset.cpus
echo $$ >$pod/cgroup.procs
"""
IN_CONTAINER = "/usr/bin/unshare --cgroup --mount sh -c 'mount -t cgroup2 cgroup2 /sys/fs/cgroup; exec \"$@\"' sh "

THREADS = """
import json, os, sys, threading, time, zf_runtime
from zf_runtime.binding import memory
def touch(cpu):
    '''Touches 32 MiB on this CPU's node.'''
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    pages = bytearray(32 << 20)
    os.sched_setaffinity(0, before)
    return pages
hold = threading.Event()
for _ in range(16):
    threading.Thread(target=hold.wait, daemon=True).start()
early = touch(int(os.environ['TOUCH'])) if 'TOUCH' in os.environ else None
binding = zf_runtime.bind()
late = bytearray(96 << 20)
print(json.dumps({'text': str(binding), 'errors': binding.errors, 'cpus': sorted(binding.cpus),
    'mems': sorted(binding.mems), 'moved': binding.moved, 'elsewhere': binding.pages_elsewhere,
    'elsewhere_later': memory.share_elsewhere(binding.mems),
    'masks': sorted({tuple(sorted(os.sched_getaffinity(int(tid)))) for tid in os.listdir('/proc/self/task')})}))
sys.stdout.flush()
open(f'bound.{os.getpid()}', 'w').close()
deadline = time.monotonic() + 60  # a claim ends with its process, so ranks beside each other wait for all to be bound
while len([name for name in os.listdir() if name.startswith('bound.')]) < int(os.environ.get('BESIDE', 1)):
    assert time.monotonic() < deadline, 'the other rank was not bound'
    time.sleep(0.1)
"""


class Bind(CommandTest):
    def setUp(self):
        super().setUp()
        guest.need()

    def run_python(self, command: str, **keywords) -> list[dict]:
        """Runs a command with Python, the package and zf-tune in a guest. Returns what `python bind.py` printed."""
        program = (f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n{MODULES}\n"
                   "print(*(m.__file__ for m in sys.modules.values() if getattr(m, '__file__', None)), sep='\\n')")
        loaded = subprocess.run(["/usr/bin/python3", "-S", "-E", "-B", "-c", program], capture_output=True, text=True,
                                timeout=60, check=True).stdout.split()
        own = [pathlib.Path(path) for path in loaded if PACKAGE in pathlib.Path(path).parents]
        files = [(path, path) for path in loaded if path.endswith(".py") and pathlib.Path(path) not in own]
        files += [(path, f"/guest/{path.relative_to(PACKAGE.parent)}") for path in own]
        result = guest.run(
            f"set -e; export PATH={BINARY.rsplit('/', 1)[0]}:$PATH ZF_TUNE_BINARY={BINARY} "
            f"ZF_RUNTIME_LIBRARY={LIBRARY}; {command}",
            programs=[BINARY, LIBRARY, "/usr/bin/python3", "/usr/bin/unshare",
                      *(path for path in loaded if path.endswith(".so"))],
            files=files, texts={"/guest/bind.py": THREADS}, timeout_s=280, **keywords)
        self.assert_exit(result, DONE)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def test_two_ranks_in_a_pod_have_a_node_each(self):
        """The second has touched 32 MiB on the wrong node before."""
        ranks = " ".join(f"LOCAL_RANK={rank} LOCAL_WORLD_SIZE=2 {touch} {IN_CONTAINER} python3 -S -E -B bind.py;"
                         for rank, touch in ((0, ""), (1, "TOUCH=2")))
        first, second = self.run_python(POD + ranks, shape="2n")
        self.assertEqual((first["errors"], second["errors"]), ([], []))
        self.assertEqual((first["cpus"], first["mems"], second["cpus"], second["mems"]), ([2, 3], [0], [4, 5], [1]))
        for its in (first, second):
            self.assertEqual((its["masks"], its["moved"]), ([its["cpus"]], 17), its["text"])
        self.assertGreater(second["elsewhere"], 0.5)
        self.assertIn("of the memory lies on other nodes", second["text"])
        self.assertLess(second["elsewhere_later"], second["elsewhere"] / 2)

    def test_a_gpus_home_is_on_its_node(self):
        """GPU 0 is near node 1. One process sees it alone, and nothing else is known of it."""
        run = " ".join(f"HIP_VISIBLE_DEVICES={gpu} python3 -S -E -B bind.py;" for gpu in (0, 1))
        first, second = self.run_python(run, shape="2n-gpus")
        self.assertEqual((first["cpus"], first["mems"]), ([4, 5, 6, 7], [1]), first["text"])
        self.assertEqual((second["cpus"], second["mems"]), ([0, 1, 2, 3], [0]), second["text"])

    def test_two_ranks_whose_cpus_neighbours_share_both_have_the_home_of_their_gpu(self):
        run = ("echo +cpu >/sys/fs/cgroup/cgroup.subtree_control; mkdir /sys/fs/cgroup/pod; "
               "echo 400000 100000 >/sys/fs/cgroup/pod/cpu.max; echo $$ >/sys/fs/cgroup/pod/cgroup.procs; "
               "export BESIDE=2; for rank in 0 1; do LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 HIP_VISIBLE_DEVICES=0 "
               "python3 -S -E -B bind.py & done; wait")
        for its in self.run_python(run, shape="2n-gpus"):
            self.assertEqual((its["cpus"], its["mems"]), ([4, 5, 6, 7], [1]), its["text"])

    def test_two_ranks_that_share_a_gpu_divide_its_home(self):
        """The launcher, a shell, has the list, too."""
        run = ("BESIDE=2 HIP_VISIBLE_DEVICES=0 sh -c 'for rank in 0 1; do LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 "
               "python3 -S -E -B bind.py & done; wait'")
        ranks = sorted(self.run_python(run, shape="2n-gpus"), key=lambda its: its["cpus"])
        self.assertEqual([(its["cpus"], its["mems"]) for its in ranks], [([4, 5], [1]), ([6, 7], [1])],
                         "\n".join(its["text"] for its in ranks))
