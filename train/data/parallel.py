"""How a pass over a corpus reads it: many texts at a time, on all cores."""

import os

# Texts or records that one call of an op takes; one by one is far slower, and
# more gain nothing.
CHUNK = 1024

# Said outright: within a pass tf.data does not tune it. Of a container's cores.
PARALLEL = (
    len(os.sched_getaffinity(0))
    if hasattr(os, "sched_getaffinity")
    else os.cpu_count()
)
