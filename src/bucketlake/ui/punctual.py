"""Connections that ask in time: one that does not say what it wants is closed.

    uvicorn.Config(…, http=Punctual)

Uvicorn itself waits for ever for the first request of a connection, and for the rest of one that has begun.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_SECONDS = 10.0  # until the head of a request is there, from the connection or its first byte on


class Punctual(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # which of the two it is shows at run time
    """Uvicorn's protocol, with an end to how long the head of a request may take."""

    seconds = HEAD_SECONDS
    _due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """The time runs from here on."""
        super().connection_made(transport)
        self._due = self.loop.call_later(self.seconds, self._close)

    def data_received(self, data: bytes) -> None:
        """With a whole head the time stops; with a part of the next one it begins anew."""
        super().data_received(data)
        if not self._is_waiting():
            self._stop()
        elif self._due is None:
            self._due = self.loop.call_later(self.seconds, self._close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is waited for."""
        self._stop()
        super().connection_lost(exc)

    def _is_waiting(self) -> bool:
        """Whether no request is being answered: its head is not whole yet."""
        return self.cycle is None or self.cycle.response_complete

    def _stop(self) -> None:
        if self._due is not None:
            self._due.cancel()
        self._due = None

    def _close(self) -> None:
        self._due = None
        if self._is_waiting():
            self.transport.close()
