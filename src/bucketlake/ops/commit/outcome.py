"""What is known of a commit, and what may therefore be done with the files that were written for it.

    Outcome                         nothing asked yet, asked, lost, published; `ops.commit.publish` tells it
    owned(outcome, remove)          the block writes or commits: where it raises, `remove` runs if that is safe
    Attempts(store, remove, …)      write and commit, planned anew where another commit came first

One rule for every place that writes files and then commits: **from the moment a snapshot's put is begun, its files stay
unless the commit is certainly lost.** What is raised then is CommitUnknownError, from whatever went wrong; an interrupt
(KeyboardInterrupt, SystemExit) stays what it is, and removes nothing either.

Spec: docs/spec/commit.md#outcome
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TypeVar

from bucketlake.errors import CommitUnknownError, ConflictError, NotFoundError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.table.known import AlteredError
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.retry import ATTEMPTS, has_moved
from bucketlake.ops.table.store import Store

T = TypeVar("T")
SHORTEST_PAUSE = 0.01  # seconds; doubled up to 64 times it
Remove = Callable[[Sequence[CommitMessage]], None]


class Outcome:
    """What became of a commit. `whole`: of a commit of several snapshots, told all that this one is told."""

    def __init__(self, whole: Outcome | None = None) -> None:
        self._whole = whole
        self._asked = self._published = False
        self.ours = False  # the snapshot was put by this very call
        self.details: dict[str, object] = {}

    def begin(self, **details: object) -> None:
        """A put is about to be sent. `details`: what an error says of it."""
        for each in self._line():
            each.details = details
            each._asked = True

    def lose(self) -> None:
        """The put was refused for certain: another snapshot has the name."""
        for each in self._line():
            each._asked = False

    def publish(self, ours: bool = True) -> None:
        """The snapshot is there; `ours`: put by this call, not by another run of the same job."""
        for each in self._line():
            each._published = True
            each.ours = ours

    @property
    def free(self) -> bool:
        """Whether no snapshot names the files, for certain: they may be removed."""
        return not (self._asked or self._published)

    def unknown(self, error: Exception) -> CommitUnknownError:
        """The error to raise for one that is raised while files are not free."""
        if isinstance(error, CommitUnknownError):
            return error
        return CommitUnknownError(
            "the commit was interrupted after its snapshot was sent to the storage",
            **self.details,
            reason=f"{type(error).__name__}: {error}",
            remedy="look for a snapshot with this uuid before committing again; no file was removed",
        )

    def _line(self) -> Iterator[Outcome]:
        each: Outcome | None = self
        while each is not None:
            yield each
            each = each._whole


@contextmanager
def owned(outcome: Outcome, remove: Callable[[], None]) -> Iterator[None]:
    """Where the block raises: remove the files if no snapshot can name them, else raise what `Outcome.unknown` says.
    Interrupts pass as they are."""
    try:
        yield
    except BaseException as error:
        if outcome.free:
            with suppress(Exception):  # what stays is an orphan
                remove()
            raise
        if not isinstance(error, Exception) or isinstance(error, CommitUnknownError):
            raise
        raise outcome.unknown(error) from error


class Attempts:
    """Write and commit until it holds:

        def once(attempt):
            base = attempt.on(store.latest_snapshot())
            messages = attempt.made(write(base))
            return commit.commit(messages, outcome=attempt.outcome)

        Attempts(store, commit.abort).run(once)

    An attempt that raises has its messages' files removed by `remove`, where that is safe. It is tried again, after a
    short pause, if it certainly lost to another commit (`again`), or files vanished and the newest snapshot is not the
    one that it was planned on: that had expired. `rescue` says which messages of a lost attempt still stand; the next
    attempt begins with these. All else is raised.
    """

    def __init__(
        self,
        store: Store,
        remove: Remove = lambda messages: None,
        most: int = ATTEMPTS,
        *,
        again: tuple[type[Exception], ...] = (ConflictError,),
        rescue: Callable[[Sequence[CommitMessage]], list[CommitMessage]] | None = None,
        pause: float = SHORTEST_PAUSE,
    ) -> None:
        self.store = store
        self.kept: list[CommitMessage] = []
        self.lost: Exception | None = None
        self._remove, self._most, self._again, self._rescue, self._pause = remove, most, again, rescue, pause

    def __iter__(self) -> Iterator[Attempt]:
        for number in range(self._most):
            if number:
                clock = self.store.env.clock
                clock.sleep(self._pause * 2 ** min(number - 1, 6) * (1 + clock.jitter()))
            yield Attempt(self, last=number == self._most - 1)

    def run(self, once: Callable[[Attempt], T]) -> T:
        """What `once` makes of the first attempt that holds."""
        for attempt in self:
            with attempt:
                return once(attempt)
        raise self.error()

    def error(self) -> Exception:
        """Why the last attempt was lost."""
        return self.lost or ConflictError("other commits kept coming first", path=self.store.paths.root)

    def settle(self, attempt: Attempt, error: BaseException) -> bool:
        """After an attempt that certainly lost: remove its files; whether to go on with the next one."""
        goes_on = False
        kept: list[CommitMessage] = []
        try:
            goes_on = isinstance(error, Exception) and self._may_go_on(attempt, error)
            if goes_on and self._rescue is not None and not attempt.last:
                kept = self._rescue(attempt.messages)
        finally:
            stays = {id(message) for message in kept}
            with suppress(Exception):
                self._remove([message for message in attempt.messages if id(message) not in stays])
        self.kept, self.lost = kept, error if isinstance(error, Exception) else None
        return goes_on

    def _may_go_on(self, attempt: Attempt, error: Exception) -> bool:
        if not attempt.is_of_table or isinstance(error, AlteredError):
            return False
        if isinstance(error, self._again) and not isinstance(error, CommitUnknownError):
            return True
        return isinstance(error, NotFoundError) and has_moved(self.store, attempt.base)


class Attempt:
    """One of several attempts; as a context manager it owns the files of the messages that it is told of."""

    def __init__(self, attempts: Attempts, last: bool) -> None:
        self.last = last
        self.outcome = Outcome()
        self.base: Snapshot | None = None
        self.is_of_table = True  # whether the base is one of the table that was opened: another is no lost race
        self.messages: list[CommitMessage] = list(attempts.kept)
        self._attempts = attempts

    def on(self, snapshot: Snapshot | None) -> Snapshot | None:
        """Say what it is planned on; gives the snapshot back. Errors: as `Store.check_holds`."""
        self.base, self.is_of_table = snapshot, False
        self._attempts.store.check_holds(snapshot)
        self.is_of_table = True
        return snapshot

    def within(self, whole: Outcome) -> Outcome:
        """The outcome of this attempt, of which `whole` is told, too: that of files which several attempts share."""
        self.outcome = Outcome(whole)
        return self.outcome

    def made(self, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
        """Say what was written for it; all that it has now, those kept of the attempt before included."""
        self.messages += messages
        return self.messages

    def __enter__(self) -> Attempt:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            return False
        if self.outcome.free:
            return self._attempts.settle(self, error)
        if not isinstance(error, Exception) or isinstance(error, CommitUnknownError):
            return False
        raise self.outcome.unknown(error) from error
