"""Runs a training script with zf_runtime.deepspeed installed: python -m zf_runtime.deepspeed train.py ..."""

from __future__ import annotations

import os
import runpy
import sys
from typing import NamedTuple

from ..record.attach import AfterImport
from . import install

USAGE = """usage: python -m zf_runtime.deepspeed [--exact [--speculate] | --late] [--state FORMAT] [--keep NAME]
       [-m MODULE | SCRIPT] [ARGUMENT ...]

Runs a training script, unchanged, with DeepSpeed's ZeRO-Offload and DeepSpeedCPUAdam on the native optimizer.

  --exact       step beside the next forward; each parameter is waited for just before it is used:
                the same training, bit for bit
  --speculate   with --exact: begin steps in backward, as if nothing were clipped, and take them back
                where that proves wrong: the same bits, for 2.25 bytes a parameter
  --late        step beside the next forward and backward, on weights that are one step old: not the
                same training, and without a GPU no gain over waiting is shown
  --state FORMAT
                of ZeRO's partitions: fp32, or bf16: moments in bf16, 8 bytes a parameter with the master
                instead of 12; the losses are not DeepSpeed's bits (default: the plan's)
  --keep NAME   if training dies, keep ZeRO's partitions for 600 s: the next start with that name goes on
                behind the last step (default: ZF_KEEP)
  -m MODULE     run a module, as python -m does
  --local_rank=N, which DeepSpeed's launcher inserts first, goes on to the script

ZeRO-Offload needs a plan: without one, DeepSpeedCPUAdam steps in the training process, and one line says so.

  zf-tune tune --framework native --mode wait       writes plan.json; with --exact: --mode exact;
                                                    with --late: --mode overlap --update-interval 1
  zf-tune exec -- python -m zf_runtime.deepspeed train.py ...
  deepspeed --no_python zf-tune exec -- python -m zf_runtime.deepspeed train.py ...       under DeepSpeed's launcher
  zf-tune exec -- accelerate launch --use_deepspeed --module zf_runtime.deepspeed train.py ...   accelerate, one rank

Without zf-tune exec, ZF_PLAN names the plan: ZF_PLAN=plan.json python -m zf_runtime.deepspeed train.py ...
"""


class _Options(NamedTuple):
    mode: str
    state: str | None
    speculates: bool
    keep: str | None
    inserted: list[str]  #: by DeepSpeed's launcher


def main(words: list[str]) -> None:
    """Runs what the words of the command line name. Ends the process with 2 if they are wrong."""
    mode, state, speculates, keep, inserted = _taken_options(words)
    is_module = words[:1] == ["-m"]
    words = words[1:] if is_module else words
    if not words:
        sys.exit(_wrong("no module is named" if is_module else "no script is named"))
    program, *arguments = words
    if not is_module and not os.path.exists(program):
        sys.exit(_wrong(f"there is no script '{program}'"))
    # DeepSpeed is imported after the script has set what it reads from the environment.
    after_import = AfterImport("deepspeed", lambda: install(mode, state=state, speculate=speculates, keep=keep))
    sys.meta_path.insert(0, after_import)
    sys.argv = [program, *inserted, *arguments]
    try:
        if is_module:
            sys.path[0] = os.getcwd()
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = os.path.dirname(os.path.realpath(program))
            runpy.run_path(program, run_name="__main__")
    finally:
        if after_import in sys.meta_path:
            print(f"zf_runtime.deepspeed: {program} never imported deepspeed: the native optimizer was not used",
                  file=sys.stderr)


def _taken_options(words: list[str]) -> _Options:
    """Takes our own options out of the words. Ends the process with 2 if one is wrong."""
    mode, state, speculates, keep, inserted = "wait", None, False, None, []
    while words and words[0].startswith("-") and words[0] != "-m":
        word = words.pop(0)
        if word in ("-h", "--help"):
            print(USAGE, end="")
            sys.exit()
        if word in ("--exact", "--late"):
            if mode not in ("wait", word[2:]):
                sys.exit(_wrong("--exact and --late exclude each other"))
            mode = word[2:]
        elif word == "--speculate":
            speculates = True
        elif word.split("=")[0] == "--state":
            state = _value_of(word, words)
            if state not in ("fp32", "bf16"):
                sys.exit(_wrong(f"--state is '{state}'; give fp32 or bf16"))
        elif word.split("=")[0] == "--keep":
            keep = _value_of(word, words)
        elif word.startswith(("--local_rank=", "--local-rank=")):
            inserted.append(word)
        else:
            sys.exit(_wrong(f"unknown option '{word}'"))
    if speculates and mode != "exact":
        sys.exit(_wrong("--speculate needs --exact"))
    if keep is not None and mode == "late":
        sys.exit(_wrong("--keep and --late exclude each other"))
    return _Options(mode, state, speculates, keep, inserted)


def _value_of(word: str, words: list[str]) -> str:
    """Returns the value of an option, which stands in its word or is the next one."""
    return word.partition("=")[2] if "=" in word else "".join(words[:1] and [words.pop(0)])


def _wrong(text: str) -> int:
    print(f"zf_runtime.deepspeed: {text}\n{USAGE}", file=sys.stderr, end="")
    return 2


if __name__ == "__main__":
    main(sys.argv[1:])
