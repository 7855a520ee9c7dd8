"""scikit-learn's fit callbacks (version 1.9 and later), behind names that exist with every version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vrpca.run import Record

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's mixin where its version has none."""

    def with_callbacks(method: Callable) -> Callable:
        """Return the method as it is."""
        return method


class FitTask:
    """One fit as scikit-learn's callbacks see it: a task, with a sub-task per look of the run."""

    def __init__(self, estimator: Any, X: Any, y: Any):
        self.estimator, self.data = estimator, {"X": X, "y": y}
        self.context = None
        if getattr(estimator, "_skl_callbacks", None):
            self.context = estimator._init_callback_context(max_subtasks=None)
            self.context.call_on_fit_task_begin(estimator=estimator, **self.data)

    def look(self, record: Record) -> bool:
        """Tell the callbacks of a look; return whether one of them wants to stop."""
        if self.context is None:
            return False
        task = self.context.subcontext(task_name="look")
        metadata = record.asdict()
        task.call_on_fit_task_begin(estimator=self.estimator, metadata=metadata, **self.data)
        return bool(task.call_on_fit_task_end(estimator=self.estimator, metadata=metadata, **self.data))

    def end(self) -> None:
        """Tell the callbacks that the fit is over."""
        if self.context is not None:
            self.context.call_on_fit_task_end(estimator=self.estimator, **self.data)
