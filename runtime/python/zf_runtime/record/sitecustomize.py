"""Python imports this as sitecustomize in each process of a job under `zf-tune record`, which has put it into a folder
of its own on PYTHONPATH. It starts the recorder, then leaves its name to a sitecustomize that it hides."""

import os
import sys


def _start() -> None:
    folder = os.path.dirname(os.path.abspath(__file__))
    try:
        from zf_record.attach import attach

        attach(folder, int(os.environ["ZF_RECORD_UPDATES"]))
    except Exception as error:  # the job must not notice
        print(f"zf-tune record: the recorder was not started: {error}", file=sys.stderr)
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != folder]
    mine = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        sys.modules["sitecustomize"] = mine  # Python looks for what it has imported
        if error.name != "sitecustomize":
            raise


_start()
