"""A fair lock for the tasks of one event loop."""

import asyncio
from collections import deque


class Turn:
    """Like ``asyncio.Lock``, first come first served; a free lock can be taken without waiting or a coroutine."""

    __slots__ = ("_waiting", "is_taken")

    def __init__(self) -> None:
        self.is_taken = False
        """A caller that finds it False may set it, instead of calling ``take``."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Wait for the lock and take it; a cancelled wait takes nothing."""
        if not self.is_taken:
            self.is_taken = True
            return
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        try:
            await mine
        except BaseException:
            if mine.done() and not mine.cancelled():
                self.leave()  # it was handed over at the moment of the cancellation
            raise

    def leave(self) -> None:
        """Hand the lock to the longest waiter; call it once for each ``take``."""
        while self._waiting:
            next_ = self._waiting.popleft()
            if not next_.done():
                next_.set_result(None)
                return
        self.is_taken = False
