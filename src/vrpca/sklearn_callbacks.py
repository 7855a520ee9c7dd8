"""scikit-learn's fit callbacks (version 1.9 and later), behind names that exist with every version."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

from vrpca.history import Record

F = TypeVar("F", bound=Callable[..., Any])


class _NoCallbacks:
    """Stands in for scikit-learn's mixin where its version has none (before 1.9)."""


_decorator: Callable[[Any], Any] | None = None
CallbackSupportMixin = _NoCallbacks
if not TYPE_CHECKING:  # a base of unknown type would hide everything else from type checkers
    try:
        _found = import_module("sklearn.callback")
        CallbackSupportMixin, _decorator = _found.CallbackSupportMixin, _found.with_callbacks
    except ImportError:
        pass


def with_callbacks(method: F) -> F:
    """scikit-learn's decorator of a `fit` that has callbacks. Type checkers see the method as it is written."""
    return method if _decorator is None else cast(F, _decorator(method))


class FitTask:
    """One fit as scikit-learn's callbacks see it: a task, with a sub-task per step of the run.

    Without callbacks nothing happens. scikit-learn's `set_callbacks` sets the attribute `_skl_callbacks`.
    """

    def __init__(self, estimator: Any, X: Any, y: Any):
        self.estimator, self.data = estimator, {"X": X, "y": y}
        self.context: Any = None
        if hasattr(estimator, "_skl_callbacks"):
            self.context = estimator._init_callback_context(max_subtasks=None)
            self.context.call_on_fit_task_begin(estimator=estimator, **self.data)

    def joined(self, callback: Callable[[Record], Any] | None) -> Callable[[Record], Any] | None:
        """A callback that asks the user's own one first, then scikit-learn's: whether one of them wants to stop."""
        if self.context is None:
            return callback
        return lambda record: (callback is not None and bool(callback(record))) or self._step(record)

    def _step(self, record: Record) -> bool:
        task = self.context.subcontext(task_name="step")
        metadata = record.asdict()
        task.call_on_fit_task_begin(estimator=self.estimator, metadata=metadata, **self.data)
        return bool(task.call_on_fit_task_end(estimator=self.estimator, metadata=metadata, **self.data))

    def end(self) -> None:
        """Tell the callbacks that the fit is over."""
        if self.context is not None:
            self.context.call_on_fit_task_end(estimator=self.estimator, **self.data)
