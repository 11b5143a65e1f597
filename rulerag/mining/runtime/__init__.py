"""How mining runs: tasks kept on disk, memory estimated, kernels compiled."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.mining.runtime.jit import compiled, doubled, inlined, int64
    from rulerag.mining.runtime.memory import check_memory
    from rulerag.mining.runtime.options import RunOptions
    from rulerag.mining.runtime.tasks import Arrays, TaskRunner, checkpoint_folder, thread_backend
else:
    __getattr__ = lazy_names(__name__)
