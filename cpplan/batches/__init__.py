"""Many models under many settings, one row each, in one table.

A :class:`~cpplan.batches.task.Task` is a model under a setting. Each task runs in a process of its
own (``isolation``), which joblib starts on this machine (``dispatch``) or on a Dask cluster
(``cluster``). A row is stored as soon as it arrives (``row_store``), so that a run that was killed
continues after the rows stored.
"""
