#!/usr/bin/env python3
"""Writes completions for bash, zsh and fish from what zf-tune's help says of its commands and options.

usage: completions.py ZF_TUNE FOLDER      writes FOLDER/zf-tune (bash), FOLDER/_zf-tune (zsh), FOLDER/zf-tune.fish
"""

import dataclasses
import pathlib
import re
import subprocess
import sys


@dataclasses.dataclass
class Option:
    letter: str  # empty if it has none
    name: str
    value: str  # what stands for its value in the help, empty if it takes none
    help: str

    @property
    def words(self) -> list[str]:
        return [f"--{self.name}", *([f"-{self.letter}"] if self.letter else [])]

    @property
    def takes_path(self) -> bool:
        return re.search("FILE|DIR|FOLDER|PATH", self.value) is not None


def help_of(program: str, *words: str) -> str:
    return subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True).stdout


def first_sentence(text: str) -> str:
    """Returns the text up to its first end, without what stands in brackets, such as defaults."""
    text = re.sub(r" \([^()]*\)", "", " ".join(text.split()))
    return re.split(r"[.:;] ", text)[0].rstrip(".")


def commands_in(text: str) -> dict[str, str]:
    listed = text.partition("Commands:\n")[2].partition("\n\n")[0]
    return {name: first_sentence(about) for name, about in re.findall(r"(?ms)^  (\w+) +(.*?)(?=^  \w|\Z)", listed)}


def options_in(text: str) -> list[Option]:
    listed = text.partition("Options:\n")[2]
    start = r"^  (?:-(\w), |    )--([\w-]+)(?: (\S+))?(?:  +|\n +)(.*?)(?=^  (?:-\w, |    )--|\Z)"
    found = re.findall("(?ms)" + start, listed)
    options = [Option(letter, name, value, first_sentence(text)) for letter, name, value, text in found]
    return [option for option in options if option.name != "help"] + [Option("h", "help", "", "print this help")]


def bash(options: dict[str, list[Option]]) -> str:
    paths = sorted({word for own in options.values() for option in own if option.takes_path for word in option.words})
    values = sorted({word for own in options.values() for option in own if option.value and not option.takes_path
                     for word in option.words})
    cases = "\n".join(f"    {name}) words=\"{' '.join(word for option in own for word in option.words)}\" ;;"
                      for name, own in options.items())
    return f"""# bash completion of zf-tune. Made by scripts/completions.py.
_zf_tune() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} command=tune i words
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do [[ ${{COMP_WORDS[i]}} != -- ]] || return 0; done
  [[ $COMP_CWORD -eq 1 || ${{COMP_WORDS[1]}} == -* ]] || command=${{COMP_WORDS[1]}}
  case $before in
    {'|'.join(paths)}) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return 0 ;;
    {'|'.join(values)}) return 0 ;;
  esac
  case $command in
{cases}
    *) words="" ;;
  esac
  [[ $COMP_CWORD -ne 1 || $word == -* ]] || words="{' '.join(options)}"
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  [[ ${{#COMPREPLY[@]}} -gt 0 || $word == -* ]] || mapfile -t COMPREPLY < <(compgen -f -- "$word")
}}
complete -o filenames -F _zf_tune zf-tune
"""


def zsh(commands: dict[str, str], options: dict[str, list[Option]]) -> str:
    def quoted(text: str) -> str:
        return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")

    def line(option: Option) -> str:
        value = f":{quoted(option.value)}:" + ("_files" if option.takes_path else " ") if option.value else ""
        names = "{" + ",".join(option.words) + "}" if option.letter else option.words[0]
        several = f"'({' '.join(option.words)})'" if option.letter else ""
        return f"{several}{names}'[{quoted(option.help)}]{value}'"

    listed = "\n".join(f"    '{name}:{quoted(about)}'" for name, about in commands.items())
    cases = "\n".join(f"    {name}) _arguments -s \\\n      " + " \\\n      ".join(map(line, own)) +
                      " \\\n      '*::argument:_files' ;;" for name, own in options.items())
    return f"""#compdef zf-tune
# zsh completion of zf-tune. Made by scripts/completions.py.
_zf_tune() {{
  local -a commands
  commands=(
{listed}
  )
  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
    _describe command commands
    return
  fi
  local command=tune
  if [[ $words[2] != -* ]]; then
    command=$words[2]
    shift words
    (( CURRENT-- ))
  fi
  case $command in
{cases}
  esac
}}
_zf_tune "$@"
"""


def fish(commands: dict[str, str], options: dict[str, list[Option]]) -> str:
    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    names = " ".join(commands)
    lines = ["# fish completion of zf-tune. Made by scripts/completions.py.",
             f"set -l commands {names}",
             "complete -c zf-tune -n \"not __fish_seen_subcommand_from $commands\" -f"]
    lines += [f"complete -c zf-tune -n \"not __fish_seen_subcommand_from $commands\" -a {name} -d {quoted(about)}"
              for name, about in commands.items()]
    for name, own in options.items():
        for option in own:
            when = f"__fish_seen_subcommand_from {name}"
            if name == "tune":  # the command of somebody who names none
                when += "; or not __fish_seen_subcommand_from $commands"
            letter = f" -s {option.letter}" if option.letter else ""
            value = " -r" + (" -F" if option.takes_path else " -f") if option.value else ""
            lines.append(f"complete -c zf-tune -n \"{when}\"{letter} -l {option.name}{value} -d {quoted(option.help)}")
    return "\n".join(lines) + "\n"


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    commands = commands_in(help_of(program))
    options = {name: options_in(help_of(program, name)) for name in commands}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "zf-tune").write_text(bash(options))
    (folder / "_zf-tune").write_text(zsh(commands, options))
    (folder / "zf-tune.fish").write_text(fish(commands, options))


if __name__ == "__main__":
    main()
