"""A server that needs a store, with the fault that its first argument names, if any."""
import http.client
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

FAULT, PORT = sys.argv[1], int(sys.argv[2])
CACHED = {}


def ask(path):
    store = http.client.HTTPConnection(urlsplit(os.environ["STORE"]).netloc, timeout=5)
    store.request("GET", path)
    return store.getresponse().read()


class Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/item":
            CACHED["item"] = ask("/plaintext")
        answer = CACHED["item"] if self.path == "/item" else b"ready"
        if self.path == "/item" and ("json" not in CACHED or FAULT == "forgets"):
            CACHED["json"] = ask("/json")
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, form, *args):
        if FAULT != "silent":
            print(form % args, flush=True)


def stop(*_):
    if FAULT == "rude":
        os._exit(0)
    if FAULT != "stubborn":
        threading.Thread(target=server.shutdown).start()


if FAULT != "careless":
    if "STORE" not in os.environ:
        sys.exit("STORE is missing: say where the store is")
    try:
        ask("/plaintext")
    except OSError as error:
        sys.exit(f"the store cannot be reached: {error}")
server = ThreadingHTTPServer(("127.0.0.1", PORT), Front)
server.daemon_threads = False
signal.signal(signal.SIGTERM, stop)
print(f"listening on port {PORT}", flush=True)
server.serve_forever()
server.server_close()
