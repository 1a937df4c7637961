"""Say when a job on several machines (nodes) would be better on one. Pure functions."""

from anygpu.plan.hardware.gpus import GpuSpec
from anygpu.plan.hardware.networks import Network
from anygpu.plan.offers.wording import describe_duration
from anygpu.plan.predict.step_time import UNKNOWN_NETWORK, Effort, all_reduce_s

WORTHWHILE_SHARE = 0.6  # of the ideal speed-up; below it, the plan says what the additional nodes bring


def one_process_reason(nodes: int) -> str:
    """Return the reason against several nodes for code that is not distributed."""
    return f"{nodes} nodes: the code uses no distributed training, so 1 node is as fast and cheaper"


def compare_with_one_node(
    effort: Effort, gpu: GpuSpec, *, nodes: int, gpus: int, network: Network | None
) -> str:
    """Return why one node is better than `nodes`, or how little the others speed it up; empty if they are worth it."""
    network, gpus = network or UNKNOWN_NETWORK, max(1, gpus)
    if effort.sharing == "nothing":
        return f"{nodes} nodes: the code does the same number of steps on every node, so 1 node is as fast and cheaper"
    one_s = effort.duration_on(gpu, gpus=gpus).expected
    speedup = one_s / effort.duration_on(gpu, gpus=gpus, nodes=nodes, network=network).expected
    exchange = describe_duration(all_reduce_s(effort.work, gpu, gpus=gpus, nodes=nodes, network=network))
    exchange_text = f"{nodes} nodes: all-reduce over {network.describe()} takes {exchange} per step"
    if speedup <= 1:
        return f"{exchange_text}; 1 node is faster and cheaper"
    if speedup < WORTHWHILE_SHARE * nodes:
        return (
            f"{exchange_text}; {speedup:.1f} times as fast as 1 node, at {nodes / speedup:.1f} times the cost"
        )
    return ""
