"""The image of configs/kubernetes/Containerfile, built by buildah on a minimal Debian, from a wheel of this build."""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from chroot import FOLDER
from files import FilesTest
from newest import LIBRARIES
from steps import STEP
from wheels import SOURCE, install_build, make_wheel

CONTAINERFILE = SOURCE / "configs/kubernetes/Containerfile"
# A survey and a step as the image's user, from a folder that it may not write to.
COMMAND = """set -e
cd / && id -u
{survey}
zf-tune plan --quiet --params 1M -o ~/plan.json
ZF_PLAN=~/plan.json zf-tune exec -- python3 -c "$0"
ls -d /wheels 2>&1 || true
"""


def survey_command() -> str:
    """Returns the command of survey.yaml, with the node and the folder that a pod would get."""
    command = re.search(r"command: \[(zf-tune, .*)\]", (CONTAINERFILE.parent / "survey.yaml").read_text())[1]
    return command.replace(",", "").replace("/survey", "~/survey").replace("$(NODE)", "gpu-1")


class Image(FilesTest):
    def setUp(self):
        self.program = shutil.which("buildah")
        if self.program is None:
            raise unittest.SkipTest("no buildah here: install it (scripts/packages.txt, heavy)")
        base = self.system("trixie", "python3-pip", *LIBRARIES)
        self.inside("apt-get clean && rm -rf /var/lib/apt/lists/*")
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="image-", dir=FOLDER)))
        container = self.empty_container()
        self.buildah("copy", "--quiet", container, base, "/")
        self.buildah("commit", "--quiet", container, "base")

    def empty_container(self) -> str:
        """Returns the name of an empty container, in the fastest kind of store that this machine allows."""
        for self.driver in ("overlay", "vfs"):
            try:
                return self.buildah("from", "scratch")
            except AssertionError as error:
                refused = error
        raise unittest.SkipTest(f"buildah cannot make a container here: {refused}")

    def buildah(self, *words) -> str:
        """Runs buildah with a store of its own. Returns what it says."""
        own = ("--storage-driver", self.driver, "--root", self.folder / "store", "--runroot", self.folder / "run")
        done = subprocess.run([self.program, *own, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=300, check=False)
        self.assertEqual(done.returncode, 0, f"{words[0]}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
        return done.stdout.strip()

    def test_a_user_surveys_plans_and_steps_in_it(self):
        wheels = self.folder / "wheels"
        install_build(self.folder / "tree")
        make_wheel(self.folder / "tree", wheels)
        self.buildah("bud", "--isolation", "chroot", "--build-arg", "BASE=localhost/base", "--tag", "image",
                     "--file", CONTAINERFILE, wheels)
        config = json.loads(self.buildah("inspect", "--type", "image", "image"))["OCIv1"]["config"]
        self.assertTrue(config["User"].isdigit(), "runAsNonRoot needs a number")
        container = self.buildah("from", "image")
        command = COMMAND.format(survey=survey_command())
        said = self.buildah("run", "--isolation", "chroot", container, "--", "sh", "-c", command, STEP).splitlines()
        self.assertEqual(said[0], config["User"])
        self.assertRegex(said[1], "^gpu-1: class [0-9a-f]{16}, ")
        self.assertRegex(said[2], r"^\d+\.\d+\.\d+$")
        self.assertIn("No such file", said[3], "the wheels stay in the image")


if __name__ == "__main__":
    unittest.main()
