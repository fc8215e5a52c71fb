"""http.server with its defaults: a thread per connection and keep-alive. end_headers() flushes the
head, and the body is written afterwards, on sockets with Nagle's algorithm on."""
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BODY = b"ok"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        found = self.path.split("?")[0] == "/"
        body = BODY if found else b"not found"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 511
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def main():
    port = sys.argv[sys.argv.index("--port") + 1] if "--port" in sys.argv else os.environ["PORT"]
    server = Server(("127.0.0.1", int(port)), Handler)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    server.serve_forever()


main()
