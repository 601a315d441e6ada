"""Many models under many settings, one row each, in one table.

A :class:`~cpplan.batches.task.Task` is a model under a setting. Each runs in a process of its own
(``isolation``), which joblib starts here (``dispatch``) or on a Dask cluster (``cluster``); its row
is kept as soon as it arrives (``row_store``), so that a run that was killed continues there.
"""
