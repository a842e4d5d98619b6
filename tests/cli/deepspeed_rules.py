"""The rules by which DeepSpeed 0.19.8 turns its arguments into CPUs for each rank and for each side.

They were read in utils/numa.py (launcher), zenflow_utils.py and superoffload_utils.py, and written anew.
"""

import math

# DeepSpeed's configuration for each optimizer: only what the export reads.
CONFIGS = {
    "offload": {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}},
    "zenflow": {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"},
                                      "zenflow": {"topk_ratio": 0.05, "overlap_step": True}}},
    "superoffload": {"zero_optimization": {"stage": 3,
                                           "offload_optimizer": {"device": "cpu", "super_offload": True}}},
}


def launcher_slices(bind_core_list: str, local_ranks: int) -> list[list[int]]:
    """The CPUs of each local rank: equal runs of an ascending list without overlaps or blanks."""
    cpus: list[int] = []
    for part in bind_core_list.split(","):
        low, _, high = part.partition("-")
        numbers = list(range(int(low), int(high or low) + 1))
        if not numbers or (cpus and numbers[0] <= cpus[-1]):
            raise ValueError(f"bad range list {bind_core_list}")
        cpus += numbers
    each = len(cpus) // local_ranks
    if each < 1:
        raise ValueError("a rank without a core")
    return [cpus[each * rank : each * (rank + 1)] for rank in range(local_ranks)]


def zenflow(masks: list[list[int]], perc: float, physical_cores: int) -> list[tuple[set[int], set[int]]]:
    """(training, optimizer) of each rank. `masks`: every rank of the job, here all on one node."""
    if len({len(mask) for mask in masks}) > 1:
        raise ValueError("masks of different lengths cannot be gathered")
    if all(mask == masks[0] for mask in masks):
        low = [cpu for cpu in masks[0] if cpu < physical_cores]
        each = len(low) // len(masks)
        masks = [low[each * rank : each * (rank + 1)] for rank in range(len(masks))]
    result = []
    for mask in masks:
        reserved = math.ceil(perc * len(mask))
        if 0 < reserved < len(mask):
            result.append((set(mask[:reserved]), set(mask[reserved:])))
        else:
            result.append((set(mask), set(mask)))
    return result


def superoffload(masks: list[list[int]], perc: float) -> list[tuple[set[int], set[int]]]:
    result = []
    for mask in masks:
        split = int((1 - perc) * len(mask))
        result.append((set(mask[:split]), set(mask[split:])))
    return result
