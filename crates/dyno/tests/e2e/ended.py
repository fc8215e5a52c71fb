"""A server with a thread or a process per connection. Each request costs at least 400 µs of CPU."""
import os
import signal
import socket
import sys
import threading
import time

KIND, PORT = sys.argv[1], int(sys.argv[2])
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!"


def answer(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while connection.recv(4096):
        # Read for the time that this thread has run: that is what a request costs.
        end = time.thread_time_ns() + 400_000
        while time.thread_time_ns() < end:
            pass
        connection.sendall(ANSWER)
    connection.close()


signal.signal(signal.SIGCHLD, signal.SIG_DFL)
listener = socket.create_server(("127.0.0.1", PORT), backlog=128)
children = 0
while True:
    connection, _ = listener.accept()
    if KIND == "threads":
        threading.Thread(target=answer, args=(connection,), daemon=True).start()
        continue
    if os.fork() == 0:
        listener.close()
        answer(connection)
        os._exit(0)
    connection.close()
    children += 1
    while children and os.waitpid(-1, os.WNOHANG)[0]:
        children -= 1
