"""AdamW(overlap="backward") leaves the bits of mode off, or says why it does not step within backward.

The cases are in backward/, and run in the environment of the frameworks."""

from frameworks_case import FrameworkTest


class Backward(FrameworkTest):
    CASES = "backward"

    def need_two_cpus(self):
        """One will do."""

    def test_bits_are_those_of_mode_off_or_it_is_refused(self):
        """Costs 20 s."""
        self.run_cases("ddp_cases", "bits_cases", "refusal_cases")
