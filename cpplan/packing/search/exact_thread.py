"""Exact search in its own thread, beside other searches for a packing.

The compiled loops let other threads run. Both sides exchange their best packings and bounds
regularly.
"""

from __future__ import annotations

from contextvars import copy_context
from threading import Event, Thread

from cpplan.packing.search.exact_search import ExactSearch
from cpplan.packing.search.outcome import Outcome
from cpplan.runtime.deadline import Deadline

# Nodes between two exchanges with other searches: some hundredths of a second.
_NODES = 2_000


class ExactThread:
    """A thread that searches from its creation until it is stopped, done or out of time.

    Examples
    --------
    >>> import numpy as np
    >>> from cpplan.model.problem import Problem
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> start = Outcome(np.array([0, 4, 12]), 16, 12)
    >>> search = ExactSearch(problem, seed=0)
    >>> thread = ExactThread(search, start, target=0, limit=None, deadline=Deadline(60))
    >>> thread.wait()
    >>> thread.exchange(start).peak
    12
    """

    def __init__(
        self,
        search: ExactSearch,
        state: Outcome,
        *,
        target: int,
        limit: int | None,
        deadline: Deadline,
    ):
        self._search = search
        self._target, self._limit, self._deadline = target, limit, deadline
        self._found = self._others = state
        self._error: BaseException | None = None
        self._stopped = Event()
        # Not a daemon: Python cannot end while compiled code still runs, but aborts.
        self._thread = Thread(target=copy_context().run, args=(self._run,))
        self._thread.start()

    def exchange(self, state: Outcome) -> Outcome:
        """Pass on the outcome of other searches, and return the best of both.

        Raises the error that ended the search, if there is one.
        """
        self._others = state
        if self._error is not None:
            raise self._error
        return state.merged(self._found)

    def wait(self) -> None:
        """Wait until the search ends by itself."""
        self._thread.join()

    def stop(self) -> None:
        """End the search; returns once it has ended."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not (self._stopped.is_set() or self._deadline.expired()):
                state = self._found.merged(self._others)
                if state.peak <= max(self._target, state.bound):
                    return
                self._found = self._search.run(
                    state,
                    nodes=_NODES,
                    target=self._target,
                    limit=self._limit,
                    deadline=self._deadline,
                )
        except BaseException as error:  # handed to the calling thread, which raises it
            self._error = error
