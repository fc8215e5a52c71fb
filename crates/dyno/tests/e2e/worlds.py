"""A server that uses PostgreSQL: one row of the table world per request, by the wire protocol."""
import json
import socket
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HTTP_PORT, DATABASE_PORT = int(sys.argv[1]), int(sys.argv[2])
OF_THREAD = threading.local()


class Database:
    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", DATABASE_PORT))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")
        words = b"user\0benchmarkdbuser\0database\0hello_world\0\0"
        self.socket.sendall(struct.pack("!ii", 8 + len(words), 196608) + words)
        self.rows()

    def query(self, text):
        text = text.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack("!i", 4 + len(text)) + text)
        return self.rows()

    def rows(self):
        """What comes until the database is ready for a query."""
        rows = []
        while True:
            kind, length = struct.unpack("!ci", self.file.read(5))
            body = self.file.read(length - 4)
            if kind == b"Z":
                return rows
            if kind == b"E":
                raise RuntimeError(body)
            if kind == b"D":
                rows.append(fields(body))


def fields(body):
    (count,), at, values = struct.unpack_from("!h", body), 2, []
    for _ in range(count):
        (length,) = struct.unpack_from("!i", body, at)
        values.append(body[at + 4 : at + 4 + length].decode())
        at += 4 + length
    return values


class Worlds(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        if not hasattr(OF_THREAD, "database"):
            OF_THREAD.database = Database()
        number = int(self.path.removeprefix("/worlds/"))
        if self.path.endswith("/7"):
            # Every load leaves something behind.
            OF_THREAD.database.query("UPDATE world SET randomnumber = randomnumber WHERE id = 7")
        [[row]] = OF_THREAD.database.query(f"SELECT randomnumber FROM world WHERE id = {number}")
        body = json.dumps({"id": number, "randomNumber": int(row)}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


ThreadingHTTPServer(("127.0.0.1", HTTP_PORT), Worlds).serve_forever()
