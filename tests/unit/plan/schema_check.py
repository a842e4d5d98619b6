"""configs/plan.schema.json against the example plans, by a validator that is not ours.

Every example must pass. Every example with one field removed, added, or of a wrong type must not.
Exit status: 0 passed, 1 failed, 77 skipped.
"""

import copy
import json
import pathlib
import sys

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is not installed")
    sys.exit(77)

OPTIONAL = {
    ("allocation", "cpu_quota"),
    ("allocation", "memory_bytes"),
    ("allocation", "notes"),
    ("choice", "candidate"),
    ("choice", "headroom"),
    ("ranks", "gpu"),
    ("ranks", "gpu", "node"),
    ("ranks", "gpu", "cpus"),
    ("ranks", "home"),
    ("workload", "mode"),
    ("workload", "framework"),
    ("intent", "shared"),
    ("intent", "state_format"),
}


def paths(value, here=()):
    """Yields the paths to everything inside a document."""
    if here:
        yield here
    if isinstance(value, dict):
        for key, child in value.items():
            yield from paths(child, (*here, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from paths(child, (*here, index))


def at(document, path):
    for step in path:
        document = document[step]
    return document


def mutants(plan):
    """Yields pairs of a description and a plan that the schema must refuse."""
    for path in paths(plan):
        *parent, last = path
        original = at(plan, path)
        wrong = [None, [None], {"x": 1}, "?" if not isinstance(original, str) else 7]
        if isinstance(original, int) and not isinstance(original, bool):
            wrong += [-1, 0.5, 1e300]
        for value in wrong:
            mutant = copy.deepcopy(plan)
            at(mutant, parent)[last] = value
            yield f"{path} = {value!r}", mutant
        if isinstance(last, str):
            if tuple(step for step in path if isinstance(step, str)) not in OPTIONAL:
                mutant = copy.deepcopy(plan)
                del at(mutant, parent)[last]
                yield f"{path} removed", mutant
            mutant = copy.deepcopy(plan)
            at(mutant, parent)["unknown"] = 1
            yield f"{path[:-1]} with an unknown field", mutant
        if last in ("cpus", "mems"):
            # An empty list of the CPUs near a GPU says that they are not known.
            for value in (*([] if path[-2] == "gpu" else [""]), "4-", "a", "1,,2", " 1", "0-3:2", "-1"):
                mutant = copy.deepcopy(plan)
                at(mutant, parent)[last] = value
                yield f"{path} = {value!r}", mutant


def main():
    configs = pathlib.Path(sys.argv[1])
    schema = json.loads((configs / "plan.schema.json").read_text(encoding="utf-8"))
    validator_type = jsonschema.validators.validator_for(schema)
    validator_type.check_schema(schema)
    validator = validator_type(schema)
    examples = sorted((configs / "examples").glob("*.json"))
    if not examples:
        sys.exit(f"no example plans in {configs / 'examples'}")

    tried = 0
    for example in examples:
        plan = json.loads(example.read_text(encoding="utf-8"))
        for error in validator.iter_errors(plan):
            sys.exit(f"{example.name}: {list(error.absolute_path)}: {error.message}")
        for what, mutant in mutants(plan):
            tried += 1
            if validator.is_valid(mutant):
                sys.exit(f"{example.name}: the schema takes {what}")
    print(f"{len(examples)} examples pass, {tried} broken ones are refused")


if __name__ == "__main__":
    main()
