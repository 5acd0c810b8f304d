"""How many steps to run before coming back to look around, and how to be interrupted safely."""

import signal
import threading
import time
from types import FrameType, TracebackType

# Often enough for a progress bar and Ctrl-C. Seldom enough to cost little: the buffers of a large
# network are allocated anew for each chunk, which takes as long as half a step of it.
SECONDS_PER_CHUNK = 1.0


class Pacer:
    """Chooses chunk lengths that take about a second."""

    def __init__(self) -> None:
        self._length = 1.0
        self._compiled = False
        self._began = time.perf_counter()

    def end(self, step: int, steps: int, every: int) -> int:
        """Return where the next chunk ends: at a multiple of `every`, at `steps` or before."""
        self._began = time.perf_counter()
        return min(step + int(self._length), step - step % every + every, steps)

    def saw(self, done: int) -> None:
        """Learn from a chunk of `done` steps."""
        seconds = max(time.perf_counter() - self._began, 1e-9)
        if self._compiled:  # the first chunk's time is mostly the compiler's
            self._length = max(1.0, min(8 * self._length, done * SECONDS_PER_CHUNK / seconds))
        self._compiled = True


class Interrupts:
    """Within this context Ctrl-C is noted and acted on between chunks, a second one at once.

    A chunk gives its arrays away while it runs, so an interrupt in its midst would lose the state.
    """

    def __init__(self) -> None:
        self.pending = False
        self._taken = False

    def __enter__(self) -> "Interrupts":
        """Take over Ctrl-C where it has its usual meaning and the thread is the main one."""
        usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if usual and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._note)
            self._taken = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Give Ctrl-C back, and act on one that came after the last look."""
        if self._taken:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.pending and kind is None:
            raise KeyboardInterrupt("interrupted when all was done.")

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.pending:
            raise KeyboardInterrupt("interrupted at once; what was saved before is safe.")
        self.pending = True
