"""What the tests of the commands say when one of them fails."""

from zf_cli import BINARY, USAGE, CommandTest


class ZfCli(CommandTest):
    def test_an_unexpected_exit_code_is_shown_with_the_command_and_the_files_of_its_folder(self):
        self.write_files({"a b": "", "sub/c": ""})
        result = self.run_tune("probe", "--no such")
        with self.assertRaises(AssertionError) as failed:
            self.assert_exit(result, USAGE + 100)
        for text in (f"exit code {USAGE}, not 102", f"{BINARY} probe '--no such'", f"in {self.folder}: a b sub sub/c",
                     result.stderr):
            self.assertIn(text, str(failed.exception))
