"""How mining runs: tasks kept on disk, memory estimated, kernels compiled."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.mining.runtime.jit import (
        compiled as compiled,
        doubled as doubled,
        inlined as inlined,
        int64 as int64,
    )
    from rulerag.mining.runtime.memory import check_memory as check_memory
    from rulerag.mining.runtime.options import RunOptions as RunOptions
    from rulerag.mining.runtime.tasks import (
        Arrays as Arrays,
        TaskRunner as TaskRunner,
        checkpoint_folder as checkpoint_folder,
        thread_backend as thread_backend,
    )
else:
    __getattr__ = lazy_names(__name__)
