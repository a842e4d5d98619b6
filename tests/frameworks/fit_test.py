"""zf-tune fit against real libraries: the parameters of a config.json, and the memory of a small job."""

import json
import subprocess
import unittest

import memory_peaks
from frameworks_case import FrameworkTest, framework_environment, job, lines_of
from zf_cli import DONE, INFEASIBLE

SIZES = {"hidden_size": 64, "intermediate_size": 160, "num_attention_heads": 4, "num_hidden_layers": 3,
         "vocab_size": 99}
CONFIGS = [
    {"model_type": "llama", **SIZES},
    {"model_type": "llama", **SIZES, "num_key_value_heads": 2, "attention_bias": True, "mlp_bias": True,
     "head_dim": 24},
    {"model_type": "llama", **SIZES, "tie_word_embeddings": True},
    {"model_type": "mistral", **SIZES, "num_key_value_heads": 2},
    {"model_type": "mistral", **SIZES, "num_key_value_heads": 1, "head_dim": 40},
    {"model_type": "qwen2", **SIZES, "num_key_value_heads": 2, "tie_word_embeddings": True},
    {"model_type": "qwen2", **SIZES, "num_key_value_heads": 4},
    {"model_type": "qwen3", **SIZES, "num_key_value_heads": 2},
    {"model_type": "qwen3", **SIZES, "num_key_value_heads": 2, "head_dim": 32, "attention_bias": True},
    {"model_type": "mixtral", **SIZES, "num_key_value_heads": 2, "num_local_experts": 5},
    {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 3, "vocab_size": 99, "n_positions": 50},
    {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2, "vocab_size": 99, "n_inner": 100},
    {"model_type": "gpt_neox", **SIZES},
    {"model_type": "gpt_neox", **SIZES, "attention_bias": False, "tie_word_embeddings": True},
]


class Fit(FrameworkTest):
    def fit(self, *options: str) -> dict:
        result = self.run_tune("fit", "--format", "json", *options)
        self.assertIn(result.returncode, (DONE, INFEASIBLE), result.stderr)
        return json.loads(result.stdout)

    def test_configs_have_the_parameters_of_the_models_that_transformers_makes(self):
        done = subprocess.run(job("transformers_sizes"), input="\n".join(map(json.dumps, CONFIGS)), text=True,
                              check=True, env=framework_environment(), stdout=subprocess.PIPE, timeout=200)
        made = lines_of(done.stdout)
        self.assertEqual(len(made), len(CONFIGS), done.stdout)
        folder = self.folder / "model"
        folder.mkdir()
        for config, model in zip(CONFIGS, made, strict=True):
            with self.subTest(config=config):
                (folder / "config.json").write_text(json.dumps(config))
                said = self.fit("--model", "model")["job"]
                self.assertEqual((said["params"], said["largest_parameter"]), (model["params"], model["largest"]))

    def need_cgroups(self):
        if not (memory_peaks.V1.is_dir() or (memory_peaks.V2 / "memory.stat").exists()):
            self.skipTest("no memory cgroup here")
        try:
            memory_peaks.Group("try").close()
        except OSError as error:
            self.skipTest(f"no memory cgroup can be made here: {error}")

    def test_a_small_job_in_place_needs_what_was_forecast(self):
        """The short form of memory_peaks.py: 34M parameters, in a cgroup.

        They are fp32: torch's 16-bit matrix product makes its result in fp32 first on a CPU without AVX-512, which is
        a seventh of so small a job.
        """
        self.need_cgroups()
        each = memory_peaks.Run("in-place:fp32:bf16", "200M")
        each.blocks = 1
        forecast = each.forecast()
        found = memory_peaks.measure(each)["found"]
        for phase in memory_peaks.PHASES:
            self.assertAlmostEqual(forecast[phase] / found[phase], 1, delta=0.1, msg=f"{phase}: {found}")

    def test_each_way_needs_what_was_forecast_and_runs_in_it(self):
        """The long form: 201M parameters in each way, and a job on both sides of its limit."""
        self.need_cgroups()
        bases = {}
        for way in memory_peaks.FIT:
            each = memory_peaks.Run(f"{way}:bf16:fp32", "200M")
            with self.subTest(job=each.spec):
                forecast, measured = each.forecast(), memory_peaks.measure(each)
                bases[way] = measured["base"]
                for phase in memory_peaks.PHASES:
                    self.assertAlmostEqual(forecast[phase] / measured["found"][phase], 1, msg=phase,
                                           delta=memory_peaks.bar_of(way))
        each = memory_peaks.Run("in-place:bf16:fp32", "200M")
        above = memory_peaks.limit(each, bases[each.way], memory_peaks.ABOVE)
        none = {"whole": 0, "resume": 0}
        self.assertEqual((above["kills"], above["status"]), (none, none), above)
        below = memory_peaks.limit(each, bases[each.way], memory_peaks.BELOW)
        self.assertGreater(sum(below["kills"].values()), 0, below)


if __name__ == "__main__":
    unittest.main()
