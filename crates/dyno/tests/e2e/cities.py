"""A server with Elasticsearch behind it: the name of a city for each request."""
import http.client
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HTTP_PORT, STORE_PORT = int(sys.argv[1]), int(sys.argv[2])
OF_THREAD = threading.local()


def city(number):
    if not hasattr(OF_THREAD, "store"):
        OF_THREAD.store = http.client.HTTPConnection("127.0.0.1", STORE_PORT, timeout=5)
    OF_THREAD.store.request("GET", f"/city/_source/{number}?_source_excludes=geometry")
    return json.loads(OF_THREAD.store.getresponse().read())


class Cities(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        try:
            status, body = 200, city(self.path.removeprefix("/"))["names"]["cs"].encode()
        except (OSError, http.client.HTTPException) as error:
            status, body = 503, str(error).encode()
            del OF_THREAD.store
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


ThreadingHTTPServer(("127.0.0.1", HTTP_PORT), Cities).serve_forever()
