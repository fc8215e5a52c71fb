// A front end of a simulated accelerator card, like kernel-bypass servers. One thread never sleeps:
// it polls the sockets and the completion ring of the card alternately. The card takes any number
// of jobs at once and completes each job exactly 10 ms after its submission.
#include "http.h"

enum { RING = 4096, LATENCY_US = 10000 };
static struct { uint64_t due; struct conn *c; } ring[RING];
static unsigned head, tail;

static uint64_t now_us(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ull + t.tv_nsec / 1000;
}


static void drop(struct conn *c) { close(c->fd); free(c); }

// Starts the next request of a connection, if there is one. A connection has at most one job in the
// card.
static void next(struct conn *c) {
	if (c->busy) return;
	int r = take(c);
	if (r < 0 || (r == 0 && c->eof)) { drop(c); return; }
	if (r == 0) return;
	if (tail - head == RING) { drop(c); return; }
	c->busy = 1;
	ring[tail % RING].due = now_us() + LATENCY_US;
	ring[tail++ % RING].c = c;
}

int main(int argc, char **argv) {
	int listener = listen_on(port_of(argc, argv)), ep = begin(listener);
	struct epoll_event ev, got[64];
	while (!over) {
		int n = epoll_wait(ep, got, 64, 0);
		for (int i = 0; i < n; i++) {
			struct conn *c = got[i].data.ptr;
			if (!c) {
				while ((c = accept_one(listener))) {
					ev = (struct epoll_event){.events = EPOLLIN | EPOLLET | EPOLLRDHUP, .data.ptr = c};
					epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev);
				}
				continue;
			}
			if (fill(c) <= 0) c->eof = 1;
			next(c);
		}
		uint64_t now = now_us();
		while (head != tail && ring[head % RING].due <= now) {
			struct conn *c = ring[head++ % RING].c;
			c->busy = 0;
			if (answer(c) || c->last) { drop(c); continue; }
			if (c->len == BUFFER && fill(c) <= 0) c->eof = 1;
			if (c->len || c->eof) next(c);
		}
	}
	return 0;
}
