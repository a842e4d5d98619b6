"""docs/kubernetes.md links all manifests, Kubernetes takes them, and the page's commands do what it says."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from permissions import need_program
from zf_cli import BINARY, DONE, SOURCE, CommandTest

PAGE = (SOURCE / "docs/kubernetes.md").read_text()
FOLDER = SOURCE / "configs/kubernetes"
CHECK_ENV = pathlib.Path(os.environ["ZF_CHECK_ENV"])
VALIDATE = pathlib.Path(__file__).with_name("validate_manifests.py")


class Manifests(unittest.TestCase):
    def validate(self, *paths: pathlib.Path) -> str:
        python = CHECK_ENV / "bin/python"
        if not list(CHECK_ENV.glob("lib/python*/site-packages/kubernetes_validate")):
            self.skipTest(f"no {CHECK_ENV.name} with kubernetes-validate: run scripts/check python")
        done = subprocess.run([python, VALIDATE, *paths], capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_page_links_all_manifests(self):
        linked = re.findall(r"\]\(\.\./configs/kubernetes/(\w+\.yaml)\)", PAGE)
        self.assertEqual(sorted(linked), sorted(file.name for file in FOLDER.glob("*.yaml")))
        self.assertEqual(len(linked), 3)

    def test_label_and_plan_are_those_of_one_class(self):
        """The label is in quotation marks: YAML reads 123456789012e345 as a number."""
        pod = (FOLDER / "torchrun.yaml").read_text()
        label, wanted = re.search(r'nodeSelector: \{(\S+): "(\w+)"\}', pod).groups()
        self.assertIn(f"/etc/zf-tune/plans/{wanted}.json", pod)
        self.assertIn(f"{label}=\\(.machine.fingerprint)", PAGE)

    def test_survey_is_repeated_on_all_nodes_at_once(self):
        """By default a DaemonSet restarts one pod after the other, and waits for each: hours on 1,000 nodes."""
        self.assertRegex((FOLDER / "survey.yaml").read_text(), r"(?m)^  updateStrategy: .*\bmaxUnavailable: 100%")

    def test_kubernetes_and_kuberay_take_them(self):
        self.assertEqual(self.validate(*sorted(FOLDER.glob("*.yaml"))), "")

    def test_what_they_do_not_take_is_found(self):
        for name, old, new in (("torchrun", "mountPath", "mountpath"), ("survey", "command", "comand"),
                               ("survey", "selector: {match", "selector: {"), ("ray", "limits:", "limit:"),
                               ("ray", "minReplicas: 2", "minReplicas: two"), ("ray", '"0"', "0")):
            with self.subTest(name, new=new), tempfile.TemporaryDirectory() as folder:
                text = (FOLDER / f"{name}.yaml").read_text()
                self.assertIn(old, text)
                wrong = pathlib.Path(folder, "wrong.yaml")
                wrong.write_text(text.replace(old, new, 1))
                self.assertIn("wrong.yaml: ", self.validate(wrong))


# Stands for kubectl: what would run in a pod runs here, and what would change the cluster is written down.
KUBECTL = """#!/bin/bash
case $1 in
  exec) while [[ $1 != -- ]]; do shift; done && exec "${@:2}" ;;
  get) echo "pod/of-${!#}" ;;
  *) echo "$*" >>kubectl.log ;;
esac
"""


class Session(CommandTest):
    def test_the_commands_label_each_node_and_keep_a_plan_of_each_class(self):
        need_program("jq")
        for node in ("gpu-1", "gpu-2", "gpu-17"):
            added = self.run_tune("survey", "add", "survey", "--name", node, "--no-bandwidth")
            self.assert_exit(added, DONE)
        (self.folder / "plans").mkdir()
        (self.folder / "kubectl").write_text(KUBECTL)
        (self.folder / "kubectl").chmod(0o755)
        (session,) = re.findall(r"^```bash\n(inside=.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
        for page, here in (("/survey", "survey"), ("--ranks 8", "--ranks 1 --budget 1s --params 1M")):
            self.assertIn(page, session)
            session = session.replace(page, here)
        path = f"{self.folder}:{pathlib.Path(BINARY).parent}:{os.environ['PATH']}"
        done = subprocess.run(["bash", "-euc", session], cwd=self.folder, env=os.environ | {"PATH": path},
                              capture_output=True, text=True, timeout=50, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        plan = self.read_plan(*(self.folder / "plans").iterdir())
        self.assert_sound(plan)
        label = f"zf-tune/class={plan['machine']['fingerprint']}"
        self.assertEqual((self.folder / "kubectl.log").read_text().splitlines(),
                         [*(f"label --overwrite node {node} {label}" for node in ("gpu-1", "gpu-2")),
                          "create configmap zf-plans --from-file=plans"])
        self.assertEqual([file.stem for file in (self.folder / "plans").iterdir()], [plan["machine"]["fingerprint"]])


if __name__ == "__main__":
    unittest.main()
