"""An Adam optimizer in its own process, on the CPUs that a zf-tune plan gives it.

    from zf_runtime import Group, Runtime

    with Runtime(plan="plan.json", groups=[Group(elements=n)]) as runtime:
        runtime.params(0)[:] = initial           # NumPy views of the shared memory: nothing is copied
        runtime.grads(0)[:] = gradients
        runtime.wait(runtime.submit(adam_scalars(step, lr=1e-3)))     # params are updated; step is 1, 2, ...

    from zf_runtime import AdamW, Adam           # torch's, in place or with such a process; needs torch

    from zf_runtime import bind                  # the home of this rank, where no wrapper can precede the script
    print(bind())

NumPy and torch are imported when they are first used. docs/runtime.md says what the runtime promises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import ZfBusy, ZfError, ZfPlanError, ZfStateError, ZfTimeout, ZfWorkerDied
from .native.group import Group
from .native.handle import Stats
from .native.library import library_version
from .native.runtime import Norm, Runtime
from .native.scalars import Scalars, adam_scalars

if TYPE_CHECKING:
    from .binding.bind import bind
    from .binding.bound import Binding
    from .optim.adam import Adam, AdamW

__version__ = "0.1.0"
__all__ = ["Adam", "AdamW", "Binding", "Group", "Norm", "Runtime", "Scalars", "Stats", "ZfBusy", "ZfError",
           "ZfPlanError", "ZfStateError", "ZfTimeout", "ZfWorkerDied", "adam_scalars", "bind", "library_version"]


def __getattr__(name: str) -> Any:
    """Imports torch only for those who ask for a torch optimizer, and what bind() needs only for those who bind."""
    if name in ("Adam", "AdamW"):
        from .optim import adam

        return getattr(adam, name)
    if name == "bind":
        from .binding.bind import bind

        return bind
    if name == "Binding":
        from .binding.bound import Binding

        return Binding
    raise AttributeError(f"module 'zf_runtime' has no attribute '{name}'")


def __dir__() -> list[str]:
    """Returns all names, for completion and help: those that need torch only where it can be imported."""
    try:
        from .optim import adam  # noqa: F401
    except ImportError:
        return sorted({*globals(), *__all__} - {"Adam", "AdamW"})
    return sorted({*globals(), *__all__})
