"""A TCP proxy that cuts connections when it is told to, or at random moments."""

import asyncio
import contextlib
import random


class Proxy:
    """Forwards to a server; `cut` breaks every connection, `refuse` keeps new ones out."""

    def __init__(self, target_address):
        host, _, port = target_address.rpartition(":")
        self._target = (host, int(port))
        self._writers = set()
        self._tasks = set()
        self.refusing = False
        self.connections = 0
        self.cuts = 0

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def retarget(self, address):
        host, _, port = address.rpartition(":")
        self._target = (host, int(port))

    def cut(self):
        """Break all connections as a failing network does: with a reset, in mid-message."""
        self.cuts += bool(self._writers)
        for writer in list(self._writers):
            writer.transport.abort()

    async def cut_at_random(self, seed, *, shortest=0.01, longest=0.1):
        rng = random.Random(seed)
        while True:
            await asyncio.sleep(rng.uniform(shortest, longest))
            self.cut()

    async def _accept(self, reader, writer):
        if self.refusing:
            writer.transport.abort()
            return
        self.connections += 1
        try:
            their_reader, their_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, their_writer}
        for source, sink in ((reader, their_writer), (their_reader, writer)):
            task = asyncio.create_task(self._pump(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source, sink):
        with contextlib.suppress(OSError):
            while data := await source.read(4096):
                sink.write(data)
                await sink.drain()
        sink.transport.abort()
        self._writers.discard(sink)
