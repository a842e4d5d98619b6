"""zf-tune fit: does a job fit a node's memory. Nodes are data: hwloc's texts, folders of files, real machines."""

import json
import os
import pathlib
import re
import struct
import subprocess

from node_files import NODE_FILES
from zf_cli import DONE, INFEASIBLE, SOURCE, USAGE, CommandTest

GIB = 1 << 30
TWO_SOCKETS = "pack:2 [numa(memory=64GiB)] core:24 pu:1"


def write_model(folder: pathlib.Path, tensors: dict[str, list[int]], name="model.safetensors") -> None:
    folder.mkdir(exist_ok=True)
    header = json.dumps({name: {"dtype": "BF16", "shape": shape, "data_offsets": [0, 0]}
                         for name, shape in tensors.items()}).encode()
    (folder / name).write_bytes(struct.pack("<Q", len(header)) + header)


class Fit(CommandTest):
    def fit(self, *options: str, code=DONE) -> dict:
        result = self.run_tune("fit", "--format", "json", *options)
        self.assert_exit(result, code)
        return json.loads(result.stdout)

    def either(self, *options: str) -> dict:
        """The same, whether the job fits or not."""
        result = self.run_tune("fit", "--format", "json", *options)
        self.assertIn(result.returncode, (DONE, INFEASIBLE), result.stderr)
        return json.loads(result.stdout)

    def test_a_job_that_fits_ends_with_0_and_one_that_does_not_with_4(self):
        fits = self.fit("--params", "1B", "--topology", TWO_SOCKETS)
        self.assertTrue(fits["fits"])
        self.assertEqual(fits["capacity_bytes"], 128 * GIB)
        fails = self.fit("--params", "70B", "--topology", TWO_SOCKETS, code=INFEASIBLE)
        self.assertFalse(fails["fits"])
        self.assertRegex(fails["verdict"], r"^does not fit: short of \d+ GiB (at|in) .* of 128 GiB\)$")

    def test_the_largest_model_that_it_names_fits(self):
        largest = self.fit("--params", "70B", "--topology", TWO_SOCKETS, code=INFEASIBLE)["largest_model"]
        self.assertGreater(largest, 10**9)
        self.assertTrue(self.fit("--params", str(largest), "--topology", TWO_SOCKETS)["fits"])

    def test_the_first_change_saves_most_and_what_is_called_enough_is_enough(self):
        options = ["--params", "9B", "--topology", TWO_SOCKETS, "--framework", "in-place"]
        changes = self.fit(*options, code=INFEASIBLE)["changes"]
        saves = [change["saves_bytes"] for change in changes]
        self.assertEqual(saves, sorted(saves, reverse=True))
        (split,) = (change for change in changes if change["what"] == "--state bf16+split")
        peak = self.fit(*options, code=INFEASIBLE)["needed_bytes"]
        after = self.either(*options, "--state", "bf16+split")
        self.assertEqual(peak - after["needed_bytes"], split["saves_bytes"])
        self.assertEqual(after["fits"], split["is_enough"])

    def test_text_has_verdict_table_changes_and_what_is_not_estimated(self):
        result = self.run_tune("fit", "--params", "7B", "--ranks", "8", "--device", "gpu", "--topology", TWO_SOCKETS)
        self.assert_exit(result, INFEASIBLE)
        self.assertTrue(result.stdout.startswith("does not fit: short of "))
        for words in ("host memory", "checkpoint in memory", "together", "Changes that would help:",
                      "The largest model that fits", "GPU memory is not estimated."):
            self.assertIn(words, result.stdout)
        self.assertEqual(result.stderr, "")

    def test_what_deepspeed_may_keep_besides_is_counted_or_named(self):
        options = ("--params", "1B", "--ranks", "8", "--device", "gpu", "--pinned", "no", "--topology", TWO_SOCKETS)
        plain = self.fit(*options, "--stage", "2")
        self.assertIn("Not counted: accumulation, host-flatten. --with changes it.", plain["assumed"])
        more = self.fit(*options, "--stage", "2", "--with", "accumulation,host-flatten")
        self.assertEqual(more["job"]["with"], ["accumulation", "host-flatten"])
        self.assertEqual(more["phases"]["steady"]["bytes"] - plain["phases"]["steady"]["bytes"], 2 * 10**9)
        self.assertFalse([each for each in more["assumed"] if "Not counted" in each])
        third = self.fit(*options, "--stage", "3")
        self.assertIn("Not counted: fp32-accumulation, offload-param. --with changes it.", third["assumed"])
        summed = self.fit(*options, "--stage", "3", "--with", "fp32-accumulation")
        self.assertEqual(summed["phases"]["steady"]["bytes"] - third["phases"]["steady"]["bytes"], 2 * 10**9)

    def test_headers_of_safetensors_are_exact(self):
        write_model(self.folder / "model", {"layers.0.w": [300, 400], "layers.1.w": [500, 400], "norm": [400]})
        job = self.fit("--model", "model", "--topology", TWO_SOCKETS)["job"]
        self.assertEqual((job["params"], job["largest_parameter"], job["largest_layer"], job["model_is_estimated"]),
                         (320400, 200000, 200000, False))

    def test_a_model_in_several_files_is_their_sum(self):
        write_model(self.folder / "model", {"a": [10]}, "model-00001-of-00002.safetensors")
        write_model(self.folder / "model", {"b": [20]}, "model-00002-of-00002.safetensors")
        self.assertEqual(self.fit("--model", "model", "--topology", TWO_SOCKETS)["job"]["params"], 30)

    def test_the_index_says_which_files_are_the_model(self):
        model = self.folder / "model"
        write_model(model, {"a": [10]}, "model-00001-of-00002.safetensors")
        write_model(model, {"b": [20]}, "model-00002-of-00002.safetensors")
        write_model(model, {"a": [10], "b": [20]}, "consolidated.safetensors")
        index = model / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors",
                                                    "b": "model-00002-of-00002.safetensors"}}))
        self.assertEqual(self.fit("--model", "model", "--topology", TWO_SOCKETS)["job"]["params"], 30)
        (model / "model-00002-of-00002.safetensors").unlink()
        self.assert_refused(self.run_tune("fit", "--model", "model"), USAGE, "model-00002-of-00002.safetensors")
        for text, words in (("{}", "weight_map: is missing"), ("[1]", "index.json: is a list, not an object"),
                            ('{"weight_map": {}}', "is empty"),
                            ('{"weight_map": {"a": "../x"}}', "names no file")):
            index.write_text(text)
            self.assert_refused(self.run_tune("fit", "--model", "model"), USAGE, words)

    def test_a_stage_alone_means_deepspeed(self):
        job = self.either("--params", "1B", "--stage", "3", "--topology", TWO_SOCKETS)["job"]
        self.assertEqual((job["framework"], job["stage"]), ("deepspeed-offload", 3))

    def test_a_model_that_no_machine_holds_is_refused(self):
        write_model(self.folder / "model", {str(number): [1 << 25, 1 << 24] for number in range(3)})
        self.assert_refused(self.run_tune("fit", "--model", "model"), USAGE, "larger than any machine holds")

    def test_a_config_is_read_where_no_file_has_tensors(self):
        (self.folder / "model").mkdir()
        (self.folder / "model/config.json").write_text('{"model_type": "gpt2"}')
        self.assertEqual(self.fit("--model", "model", "--topology", TWO_SOCKETS)["job"]["params"], 124439808)

    def test_models_that_cannot_be_read_are_refused_in_one_line(self):
        model = self.folder / "model"
        fit = ("fit", "--model", "model")
        self.assert_refused(self.run_tune(*fit), USAGE, "model: ")
        model.mkdir()
        self.assert_refused(self.run_tune(*fit), USAGE, "no .safetensors file and no config.json")
        (model / "config.json").write_text('{"model_type": "mamba"}')
        self.assert_refused(self.run_tune(*fit), USAGE, '"mamba" is not one of llama, mistral')
        for text, words in (("[1]", "is a list, not an object; give --params"), ("7", "is 7, not an object"),
                            ('"x"', 'is "x", not an object'), ("null", "is null, not an object")):
            with self.subTest(text):
                (model / "config.json").write_text(text)
                self.assert_refused(self.run_tune(*fit), USAGE, f"config.json: {words}")
        for content, words in ((b"", "has no header"), (bytes(64), "is no .safetensors file"),
                               (struct.pack("<Q", 1 << 40) + b"{}", "cut off"),
                               (struct.pack("<Q", 2) + b"[]", "not an object"), (b"\xff" * 9, "cut off")):
            with self.subTest(content=content[:12]):
                (model / "model.safetensors").write_bytes(content)
                self.assert_refused(self.run_tune(*fit), USAGE, "model.safetensors", words)

    def test_a_link_to_nothing_is_named(self):
        """A cache of models is a folder of links, and what they name may have been removed."""
        model = self.folder / "model"
        fit = ("fit", "--model", "model", "--topology", TWO_SOCKETS)
        model.mkdir()
        for name in ("config.json", "model.safetensors", "model.safetensors.index.json"):
            (model / name).symlink_to("../blobs/absent")
            self.assert_refused(self.run_tune(*fit), USAGE, f"model/{name}: No such file")
            if name != "config.json":
                (model / name).unlink()
        write_model(model, {"a.weight": [8, 64]})
        self.assertEqual(self.fit(*fit[1:])["job"]["params"], 512, "a config that is not needed may be absent")

    def test_what_is_not_a_whole_model_is_refused_in_words(self):
        model = self.folder / "model"
        fit = ("fit", "--model", "model", "--topology", TWO_SOCKETS)
        self.assert_refused(self.run_tune("fit", "--model", ""), USAGE, "--model: no folder is named")
        write_model(model, {"base.q_proj.lora_A.weight": [8, 64]}, "adapter_model.safetensors")
        (model / "adapter_config.json").write_text('{"peft_type": "LORA"}')
        self.assert_refused(self.run_tune(*fit), USAGE, "adapter_config.json: this is an adapter", "base model")
        write_model(model, {"a.weight": [8, 64]})
        self.assertEqual(self.fit(*fit[1:])["job"]["params"], 512, "the model that the adapter is for is there, too")
        (model / "config.json").write_text('{"quantization_config": {"quant_method": "gptq"}}')
        self.assert_refused(self.run_tune(*fit), USAGE, "config.json: the model is quantized", "give --params")
        (model / "config.json").write_text('{"quantization_config": null')
        self.assertEqual(self.fit(*fit[1:])["job"]["params"], 512, "a config that is not needed may be broken")

    def test_wrong_options_are_refused(self):
        for options, words in ((["--params", "1B", "--model", "x"], "--params cannot be used with --model"),
                               ([], "give --params"),
                               (["--params", "1B", "--trainable", "2B"], "--trainable"),
                               (["--params", "1B", "--dtype", "fp8"], "give one of fp32, bf16, fp16"),
                               (["--params", "1B", "--memory", "lots"], "not a size"),
                               (["--params", "1B", "--pinned", "maybe"], '"maybe" is not "yes" or "no"'),
                               (["--params", "1B", "--with", "acumulation"], "did you mean accumulation?"),
                               (["--params", "1B", "--with", ""], '--with: "" is not known'),
                               (["--params", "1B", "--with", "exports"], "with a process: --framework native"),
                               (["--params", "1B", "--with", "offload-param", "--device", "gpu", "--stage", "2"],
                                "is for ZeRO-Offload 3"),
                               (["--params", "1B", "--framework", "fdsp2"], "did you mean fsdp2?"),
                               (["--params", "1B", "--framework", "superoffload", "--device", "cpu"], "needs a GPU"),
                               (["--params", "1B", "--state", "split", "--dtype", "fp32"], "for bf16 parameters")):
            with self.subTest(options=options):
                self.assert_refused(self.run_tune("fit", *options, "--topology", TWO_SOCKETS), USAGE, words)

    def test_the_cgroup_of_a_captured_node_limits_it(self):
        files = NODE_FILES | {"sys/fs/cgroup/job/memory.stat": "anon 100000000\nshmem 50000000"}
        node = self.make_node(4)
        self.write_files({f"node/{name}": f"{text}\n" for name, text in files.items()})
        said = self.fit("--params", "1M", "--reserve", "1MiB", *node)
        self.assertEqual(said["capacity_bytes"], 750000000, said["limit"])
        self.assertIn("/sys/fs/cgroup/job/memory.max", said["limit"])
        self.assertTrue(said["fits"])

    def test_real_machines_give_the_memory_of_their_nodes(self):
        folder = pathlib.Path(os.environ.get("ZF_MACHINES_DIR", ""))
        machines = sorted(folder.glob("*.xml")) if os.environ.get("ZF_MACHINES_DIR") else []
        machines += sorted((SOURCE / "tests/machines").glob("*.xml"))
        known = 0
        for machine in machines:
            with self.subTest(machine=machine.name):
                result = self.run_tune("fit", "--params", "1K", "--topology", str(machine), "--format", "json",
                                       "--reserve", "1MiB")
                if result.returncode == USAGE:
                    self.assertIn("memory is not known", result.stderr)
                    continue
                self.assertIn(result.returncode, (DONE, INFEASIBLE), result.stderr)
                sizes = [int(size) for size in re.findall(r'local_memory="(\d+)"', machine.read_text())]
                self.assertLessEqual(json.loads(result.stdout)["capacity_bytes"], max(sum(sizes), 1))
                known += 1
        self.assertGreater(known, 10)

    def test_plan_and_doctor_warn_of_what_cannot_fit(self):
        result = self.run_tune("plan", "--params", "900B", "-o", "plan.json")
        self.assert_exit(result, DONE)
        self.assertIn("warning: 900B parameters need at least", result.stderr)
        self.assertIn("zf-tune fit --params 900000000000", result.stderr)
        doctor = self.run_tune("doctor", "--plan", "plan.json", "--format", "json")
        (finding,) = (each for each in json.loads(doctor.stdout)["findings"] if each["check"] == "memory")
        self.assertEqual(finding["severity"], "severe")
        self.assertIn("900B parameters need at least", finding["what"])
        small = self.run_tune("plan", "--params", "1K", "-o", "small.json")
        self.assertNotIn("host memory", small.stderr)
        doctor = self.run_tune("doctor", "--plan", "small.json", "--format", "json")
        self.assertEqual([each for each in json.loads(doctor.stdout)["findings"] if each["check"] == "memory"], [])

    def test_the_page_has_every_framework_phase_and_type(self):
        page = (SOURCE / "docs/memory.md").read_text()
        help_text = subprocess.run([os.environ.get("ZF_TUNE_BINARY", str(SOURCE / "build/bin/zf-tune")), "fit", "-h"],
                                   check=True, stdout=subprocess.PIPE, text=True).stdout
        words = " ".join(help_text.split())
        names = re.search(r"who steps the parameters: (.*?) \(default", words)[1].split(", ")
        types = re.search(r"config\.json of type (.*?) \(default", words)[1].split(", ")
        self.assertEqual((len(names), len(types)), (8, 7))
        for word in (*names, *types):
            self.assertIn(f"`{word}`", page)
