"""An HTTP server with a known bottleneck: server.py PORT sleep|cpu|memory"""

import asyncio
import mmap
import os
import random
import sys

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!"
SIZE = 256 << 20


def map_file():
    """Maps a file larger than the memory limit, so that pages are read from the disk on access."""
    with open("pages", "w+b") as file:
        for _ in range(SIZE >> 20):
            file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, SIZE, os.POSIX_FADV_DONTNEED)
        pages = mmap.mmap(file.fileno(), SIZE, prot=mmap.PROT_READ)
        pages.madvise(mmap.MADV_RANDOM)
        return pages


async def work(mode, pages):
    if mode == "sleep":
        await asyncio.sleep(0.02)
    elif mode == "cpu":
        sum(range(20_000))
    elif mode == "memory":
        for _ in range(32):
            pages[random.randrange(SIZE)]


async def main(port, mode):
    pages = map_file() if mode == "memory" else None

    async def serve(reader, writer):
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await work(mode, pages)
                writer.write(RESPONSE)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
