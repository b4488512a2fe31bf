"""The HTTP server: its limits on connections, and its shutdown."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

_BACKLOG, _AT_ONCE = 128, 16  # connections that wait to be accepted, and are accepted before any is looked at
_MOST, _RESERVED = 512, 32  # connections, and descriptors that the runs, and those that are accepted at once, may use
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\nretry-after: 1\r\n\r\n"


def most_connections() -> int:
    """So many that descriptors do not run out."""
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST if descriptors == resource.RLIM_INFINITY else max(4, min(_MOST, descriptors - _RESERVED - _AT_ONCE))


def connection_of(seconds: float) -> type[H11Protocol]:
    """Connections that are closed where no whole request comes within so many seconds, or there are too many."""
    most = most_connections()

    class Connection(H11Protocol):
        deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            if len(self.connections) > most:
                transport.write(_BUSY)
                transport.close()
                return
            self._wait()

        def data_received(self, data: bytes) -> None:
            if not self.transport.is_closing():
                super().data_received(data)
                self._wait()

        def connection_lost(self, error: Exception | None) -> None:
            self._answering()
            super().connection_lost(error)

        def _wait(self) -> None:
            """Begin to wait for a request, unless that has begun or one is being answered."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._answering()
            elif self.deadline is None:
                self.deadline = self.loop.call_later(seconds, self.transport.abort)

        def _answering(self) -> None:
            if self.deadline is not None:
                self.deadline.cancel()
                self.deadline = None

    return Connection


class Server(uvicorn.Server):
    """A server that says `ending` before it ends, and no traces of what that cuts off."""

    ending: Callable[[], None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn, which accepts as many connections at once as may wait."""
        asyncio.get_running_loop().set_exception_handler(_failed)
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(_BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        self.ending()
        logging.getLogger("uvicorn.error").disabled = True
        await super().shutdown(sockets)


def _failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if not isinstance(context.get("exception"), OSError):  # such as no descriptor for one more connection
        loop.default_exception_handler(context)


def server_of(app: ASGIApp, *, seconds: float = 30.0, ending: Callable[[], None] = lambda: None) -> Server:
    """A server for an application; `run(sockets=[...])` starts it.

    Args:
        app: the application.
        seconds: until a connection must have sent a whole request.
        ending: called before the server ends.
    """
    server = Server(
        uvicorn.Config(
            app,
            log_level="error",
            access_log=False,
            lifespan="off",
            loop="asyncio",
            http=connection_of(seconds),
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=1,
            backlog=_AT_ONCE,
        )
    )
    server.ending = ending
    return server
