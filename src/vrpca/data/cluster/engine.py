"""Where graphs run: on the local scheduler of dask, or on a cluster through its client."""

from __future__ import annotations

import os
import pickle
import uuid
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from types import MethodType
from typing import Any

from vrpca.data.memory import physical_memory
from vrpca.errors import ClusterError, DataError

RETRIES = 2  # times that the scheduler repeats a task that raises: errors of reading often pass
SHARE_FOR_DATA = 0.5  # of the workers' memory: dask starts to spill at 0.6 of it

WATCH = 2.0  # seconds between two looks whether workers are left: a nanny needs about as long for a new one

Tasks = dict[Any, Any]


class WorkersLost(Exception):
    """All workers that tasks were meant for are gone."""


class Graph:
    """Tasks in three layers: the user's, one for each chunk with the worker that should run it, and the merging."""

    def __init__(self, base: Tasks | None = None) -> None:
        self.base: Tasks = dict(base or {})
        self.leaves: dict[str | None, Tasks] = {}  # by the worker; None for any
        self.top: dict[str | None, Tasks] = {}

    def leaf(self, key: str, function: Callable[..., Any], *arguments: Any, place: str | None = None) -> str:
        """Add a task for a chunk; return its key."""
        self.leaves.setdefault(place, {})[key] = task(key, function, *arguments)
        return key

    def merging(self, key: str, function: Callable[..., Any], keys: Sequence[str], place: str | None = None) -> str:
        """Add a task that depends on others; return its key. The first of them should be at the same place."""
        self.top.setdefault(place, {})[key] = task(key, function, *map(result_of, keys))
        return key

    @property
    def places(self) -> list[str | None]:
        """The workers, in the order of the chunks: what is merged at one depends on those behind it."""
        return [*self.leaves, *(place for place in self.top if place not in self.leaves)]

    def flat(self) -> Tasks:
        """All tasks."""
        layers = [*self.leaves.values(), *self.top.values()]
        return self.base | {key: task for tasks in layers for key, task in tasks.items()}


def task(key: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """A task. Plain tuples would do, too, but dask takes tuples and lists among arguments for keys and tasks."""
    from dask._task_spec import Task

    return Task(key, function, *arguments)


def result_of(key: Any) -> Any:
    """What stands for the result of a task among the arguments of another one."""
    from dask._task_spec import TaskRef

    return TaskRef(key)


def new_name(what: str) -> str:
    """A name for the tasks of one pass that no other pass has: results are not to be mixed up."""
    return f"vrpca-{what}-{uuid.uuid4().hex[:16]}"


class Engine(ABC):
    """What runs graphs."""

    remote: bool  # whether chunks lie in other processes
    name: str

    @property
    @abstractmethod
    def threads(self) -> int:
        """Tasks that run at the same time."""

    @property
    def task_threads(self) -> int:
        """Tasks that run at the same time in one process."""
        return self.threads

    @property
    @abstractmethod
    def memory(self) -> float:
        """Bytes of data that may be kept in memory."""

    def places(self, count: int) -> Sequence[str | None]:
        """For each of so many chunks, the worker that should have it: neighbours lie together."""
        return [None] * count

    @abstractmethod
    def packed(self, value: Any) -> Any:
        """A value as it travels in a graph; `tasks.unpacked` makes it whole again."""

    @abstractmethod
    def run(self, graph: Graph, key: str) -> Any:
        """The result of one task."""

    @abstractmethod
    def keep(self, graph: Graph, keys: Sequence[str]) -> list[Any]:
        """Run tasks and keep their results where they are; return what stands for them in graphs."""

    @abstractmethod
    def failures(self, graph: Graph, keys: Sequence[str]) -> dict[str, BaseException]:
        """Run tasks; return the errors of those that fail."""

    @abstractmethod
    def check(self, error: BaseException) -> None:
        """Raise if an error says that nothing can be run any more."""

    def gone(self, places: Iterable[str | None]) -> bool:
        """Whether there are workers, but none of these."""
        return False

    @abstractmethod
    def lost(self, values: Iterable[Any]) -> bool:
        """Whether some results that were kept are gone for good."""


class LocalEngine(Engine):
    """One of dask's schedulers on this machine: threads, unless the user has set another one."""

    remote, name = False, "this machine"

    def __init__(self, get: Callable[..., Any]):
        self.get = get

    @property
    def threads(self) -> int:
        """As dask is configured, or all cores."""
        import dask

        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return int(dask.config.get("num_workers", None) or cores)

    @property
    def memory(self) -> float:
        """A half of this machine's memory, as for arrays that are loaded from files."""
        return SHARE_FOR_DATA * physical_memory()

    def packed(self, value: Any) -> Any:
        """The value itself."""
        return value

    def run(self, graph: Graph, key: str) -> Any:
        """The result of one task."""
        return self.get(graph.flat(), key)

    def keep(self, graph: Graph, keys: Sequence[str]) -> list[Any]:
        """The results themselves."""
        return list(self.get(graph.flat(), list(keys)))

    def failures(self, graph: Graph, keys: Sequence[str]) -> dict[str, BaseException]:
        """Run one task after the other, each with what it needs alone: some versions of dask run all that they get."""
        from dask.optimization import cull

        tasks, failed = graph.flat(), dict[str, BaseException]()
        for key in keys:
            try:
                self.get(cull(tasks, [key])[0], key)
            except Exception as error:  # whatever the user's task raises
                failed[key] = error
        return failed

    def check(self, error: BaseException) -> None:
        """Nothing is lost here."""

    def lost(self, values: Iterable[Any]) -> bool:
        """Nothing is lost here."""
        return False


class ClusterEngine(Engine):
    """A cluster of dask.distributed."""

    remote = True

    def __init__(self, client: Any):
        self.client = client
        self.address = "" if client.scheduler is None else str(client.scheduler.address)

    @property
    def workers(self) -> dict[str, dict[str, Any]]:
        """What the scheduler says of its workers, by their addresses."""
        return dict(self.client.scheduler_info(n_workers=-1)["workers"])

    @property
    def name(self) -> str:  # type: ignore[override]
        """For messages."""
        return f"{len(self.client.nthreads())} workers"

    @property
    def threads(self) -> int:
        """Threads of all workers."""
        return max(1, sum(self.client.nthreads().values()))

    @property
    def task_threads(self) -> int:
        """Threads of the worker that has most."""
        return max(self.client.nthreads().values(), default=1)

    @property
    def memory(self) -> float:
        """A half of the workers' limits."""
        limits = [worker["memory_limit"] for worker in self.workers.values()]
        return SHARE_FOR_DATA * sum(limit or physical_memory() for limit in limits)

    def places(self, count: int) -> Sequence[str | None]:
        """Equal shares of consecutive chunks, by threads."""
        slots = [address for address, threads in sorted(self.client.nthreads().items()) for _ in range(threads)]
        return [slots[number * len(slots) // count] if slots else None for number in range(count)]

    def packed(self, value: Any) -> Any:
        """Bytes: the scheduler passes them on to one worker, and the others get the value from there, once each.

        `Client.scatter` would send it past the scheduler, but waits for ever if a worker dies meanwhile (2026.8); and
        what was scattered cannot be made again.
        """
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)

    def _submitted(self, graph: Graph, keys: Sequence[str]) -> list[Any]:
        from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

        layers, depends = {"base": MaterializedLayer(graph.base)}, {"base": set[str]()}

        def add(name: str, tasks: Tasks, place: str | None, below: set[str]) -> None:
            wish = None if place is None else {"workers": [place], "allow_other_workers": True}
            layers[name], depends[name] = MaterializedLayer(tasks, annotations=wish), below

        for place, tasks in graph.leaves.items():
            add(f"leaves-{place}", tasks, place, {"base"})
        for place in reversed(graph.places):
            if place in graph.top:
                add(f"top-{place}", graph.top[place], place, set(layers))
        together = HighLevelGraph(layers, depends)
        return list(self.client.get(together, list(keys), sync=False, retries=RETRIES))

    def run(self, graph: Graph, key: str) -> Any:
        """The result of one task. Ctrl-C cancels it, and all that it waits for."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # the block of vectors is in it, once
            [future] = self._submitted(graph, [key])
        try:
            self._wait([future], graph)
            return future.result()
        except BaseException:
            self._cancel([future])
            raise

    def _wait(self, futures: Sequence[Any], graph: Graph) -> None:
        """Wait for tasks. If none of the workers that they were meant for is left, nobody would ever run them.

        Tasks may run elsewhere, but the scheduler (2026.8) forgets that if there is no worker at all for a while.
        """
        from distributed import wait

        while True:
            try:
                wait(futures, timeout=WATCH)
                return
            except TimeoutError:
                if self.gone(graph.places):
                    raise WorkersLost("all workers were lost, and others have come") from None

    def _cancel(self, futures: Sequence[Any]) -> None:
        if self.client.status == "running":
            self.client.cancel(list(futures), force=True)

    def keep(self, graph: Graph, keys: Sequence[str]) -> list[Any]:
        """Futures: the results stay with the workers as long as these exist."""
        futures = self._submitted(graph, keys)
        try:
            self._wait(futures, graph)
        except BaseException:
            self._cancel(futures)
            raise
        for future in futures:
            if future.status == "error":
                future.result()  # raises it
        return futures

    def failures(self, graph: Graph, keys: Sequence[str]) -> dict[str, BaseException]:
        """Run all tasks, and see which of them fail."""
        from distributed import wait

        futures = self._submitted(graph, keys)
        wait(futures)
        return {key: future.exception() for key, future in zip(keys, futures, strict=True) if future.status == "error"}

    def check(self, error: BaseException) -> None:
        """Raise if the scheduler is gone: it is asked something, which raises whatever closed connections raise."""
        try:
            self.client.nthreads()
        except Exception as closed:
            raise ClusterError(
                f"The scheduler at {self.address} is lost ({type(closed).__name__}). Start a cluster and fit again; "
                "with a checkpoint, the fit goes on from it."
            ) from error

    def gone(self, places: Iterable[str | None]) -> bool:
        """Whether there are workers, but none of these."""
        meant, there = {place for place in places if place is not None}, set(self.client.nthreads())
        return bool(meant and there) and not meant & there

    def lost(self, values: Iterable[Any]) -> bool:
        """Whether the workers do not have some of these results any more, and cannot make them again."""
        from distributed import Future

        return any(isinstance(value, Future) and value.status in ("cancelled", "lost") for value in values)


def current_engine() -> Engine:
    """The cluster of the current client, if there is one; else the scheduler that dask is set to, or threads."""
    import dask
    import dask.threaded

    get = dask.base.get_scheduler() or dask.threaded.get
    if not isinstance(get, MethodType):  # that of a client is one
        return LocalEngine(get)
    client: Any = get.__self__
    if client.asynchronous:
        raise DataError("The current dask client is asynchronous: fit where a synchronous client is the current one.")
    return ClusterEngine(client)
