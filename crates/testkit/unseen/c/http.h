// The part of HTTP/1.1 that a server of GET requests needs: keep-alive, pipelining, 404, 405.
#ifndef HTTP_H
#define HTTP_H
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 16384 };

struct conn {
	int fd;
	int busy;      // whether a request of this connection is being processed
	int status;    // status of the response to that request
	int last;      // close after that request
	int eof;       // the peer will send no more
	pid_t child;   // process of that request (fork.c)
	size_t len;
	char buf[BUFFER];
};

static void die(const char *what) { perror(what); exit(1); }

static int port_of(int argc, char **argv) {
	for (int i = 1; i + 1 < argc; i++)
		if (!strcmp(argv[i], "--port")) return atoi(argv[i + 1]);
	const char *env = getenv("PORT");
	if (!env) { fprintf(stderr, "PORT is not set\n"); exit(2); }
	return atoi(env);
}

static int listen_on(int port) {
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
	if (fd < 0) die("socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 511)) die("listen");
	return fd;
}

static volatile sig_atomic_t over;
static void on_term(int s) { (void)s; over = 1; }

// Returns an epoll instance that reports the listener with a null pointer. SIGTERM and SIGINT set
// `over`.
static inline int begin(int listener) {
	struct sigaction sa = {.sa_handler = on_term};
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};
	epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
	return ep;
}

static struct conn *accept_one(int listener) {
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), on = 1;
	if (fd < 0) return NULL;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	struct conn *c = calloc(1, sizeof *c);
	c->fd = fd;
	return c;
}

// Reads all available bytes. Returns 1 if the connection stays open, 0 if the peer closed it, and
// -1 on an error.
static int fill(struct conn *c) {
	while (c->len < BUFFER) {
		ssize_t n = read(c->fd, c->buf + c->len, BUFFER - c->len);
		if (n > 0) { c->len += n; continue; }
		if (n == 0) return 0;
		if (errno == EINTR) continue;
		return errno == EAGAIN ? 1 : -1;
	}
	return 1;
}

// Removes one request from the buffer. Returns 1 if `status` and `last` are set, 0 if the request
// is incomplete, and -1 if the bytes are not HTTP.
static int take(struct conn *c) {
	char *end = memmem(c->buf, c->len, "\r\n\r\n", 4);
	if (!end) return c->len == BUFFER ? -1 : 0;
	size_t head = end + 4 - c->buf;
	end[2] = 0;
	c->status = strncmp(c->buf, "GET ", 4) ? 405
		: !strncmp(c->buf, "GET / ", 6) || !strncmp(c->buf, "GET /?", 6) ? 200 : 404;
	c->last = c->status == 405 || strcasestr(c->buf, "\r\nconnection: close") != NULL;
	memmove(c->buf, c->buf + head, c->len - head);
	c->len -= head;
	return 1;
}

static int answer(struct conn *c) {
	const char *reason = c->status == 200 ? "200 OK"
		: c->status == 404 ? "404 Not Found" : "405 Method Not Allowed";
	const char *body = c->status == 200 ? "ok" : "no";
	char out[256];
	int n = snprintf(out, sizeof out,
			"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n%s\r\n%s",
	                 reason, c->last ? "Connection: close\r\n" : "", body);
	return send(c->fd, out, n, MSG_NOSIGNAL) == n ? 0 : -1;
}
#endif
