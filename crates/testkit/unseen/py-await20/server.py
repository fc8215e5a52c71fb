"""A checkout that asks a payment provider about each order. The provider (a stub in the same
process) decides on any number of orders at once, each after 20 ms. The number of orders in flight
is unlimited."""
import asyncio
import os
import signal
import sys

LATENCY = 0.020


class Provider:
    def __init__(self, loop):
        self.loop = loop

    def decide(self, order):
        decision = self.loop.create_future()
        self.loop.call_later(LATENCY, self._decided, decision, order)
        return decision

    @staticmethod
    def _decided(decision, order):
        if not decision.done():
            decision.set_result(order > 0)


class Checkout:
    def __init__(self, provider):
        self.provider = provider
        self.orders = 0

    async def connection(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                line, _, fields = head.partition(b"\r\n")
                parts = line.split(b" ")
                last = b"\r\nconnection: close" in b"\r\n" + fields.lower()
                if parts[0] == b"GET" and parts[1].split(b"?")[0] == b"/":
                    self.orders += 1
                    is_paid = await self.provider.decide(self.orders)
                    status, body = (
                        (b"200 OK", b"ok") if is_paid else (b"402 Payment Required", b"no")
                    )
                else:
                    status, body = b"404 Not Found", b"not found"
                writer.write(
                    b"HTTP/1.1 " + status
                    + b"\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n" % len(body)
                    + (b"Connection: close\r\n" if last else b"") + b"\r\n" + body
                )
                await writer.drain()
                if last:
                    break
        except (
            asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, IndexError
        ):
            pass
        finally:
            writer.close()


async def main():
    port = sys.argv[sys.argv.index("--port") + 1] if "--port" in sys.argv else os.environ["PORT"]
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: os._exit(0))
    checkout = Checkout(Provider(loop))
    server = await asyncio.start_server(checkout.connection, "127.0.0.1", int(port), backlog=511)
    await server.serve_forever()


asyncio.run(main())
