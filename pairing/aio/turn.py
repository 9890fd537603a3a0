"""A fair lock for the tasks of one event loop."""

import asyncio
from collections import deque


class Turn:
    """Like ``asyncio.Lock``, first come first served; a free lock can be taken without waiting or a coroutine."""

    __slots__ = ("is_taken", "waiting")

    def __init__(self) -> None:
        self.is_taken = False
        """Whoever sees that it is not may set it, instead of calling ``take``."""
        self.waiting: deque[asyncio.Future[None]] = deque()
        """The waiters. Without any, a caller may set ``is_taken`` to False instead of calling ``leave``."""

    async def take(self) -> None:
        """Wait for the lock and take it; a cancelled wait takes nothing."""
        if not self.is_taken:
            self.is_taken = True
            return
        mine = asyncio.get_running_loop().create_future()
        self.waiting.append(mine)
        try:
            await mine
        except BaseException:
            if mine.done() and not mine.cancelled():
                self.leave()  # it was handed over at the moment of the cancellation
            raise

    def leave(self) -> None:
        """Hand the turn to the one who has waited the longest; to be called once for each turn taken."""
        while self.waiting:
            next_ = self.waiting.popleft()
            if not next_.done():
                next_.set_result(None)
                return
        self.is_taken = False
