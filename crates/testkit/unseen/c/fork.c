// A server with a process per request, like CGI and old mail and FTP daemons. The parent accepts
// and reads. A forked child looks up the page in the inherited catalogue, responds, and exits.
#include "http.h"
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

enum { ITEMS = 160000, BUCKETS = 65536, CONNS = 1024 };
// 200 bytes and malloc's 8: 32 MB in all
struct item { struct item *next; uint64_t key; char text[184]; };
static struct item *catalogue[BUCKETS];
static struct conn *conns[CONNS];

static void load_catalogue(void) {
	for (uint64_t i = 0; i < ITEMS; i++) {
		struct item *it = malloc(sizeof *it);
		it->key = i * 0x9e3779b97f4a7c15ull;
		snprintf(it->text, sizeof it->text, "item %llu", (unsigned long long)i);
		struct item **slot = &catalogue[it->key >> 48];
		it->next = *slot;
		*slot = it;
	}
}

static void child(struct conn *c) {
	unsigned found = 0;
	for (struct item *it = catalogue[getpid() % BUCKETS]; it; it = it->next) found++;
	_exit(answer(c) || found > ITEMS);
}

static void drop(struct conn *c) {
	conns[c->fd] = NULL;
	close(c->fd);
	free(c);
}

static void next(struct conn *c) {
	if (c->child) return;
	int r = take(c);
	if (r < 0 || (r == 0 && c->eof)) { drop(c); return; }
	if (r == 0) return;
	c->child = fork();
	if (c->child == 0) {
		sigset_t none;
		sigemptyset(&none);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sigprocmask(SIG_SETMASK, &none, NULL);
		child(c);
	}
	if (c->child < 0) { c->child = 0; drop(c); }
}

int main(int argc, char **argv) {
	load_catalogue();
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	int signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	int listener = listen_on(port_of(argc, argv)), ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = listener}, got[64];
	epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
	ev.data.fd = signals;
	epoll_ctl(ep, EPOLL_CTL_ADD, signals, &ev);
	for (;;) {
		int n = epoll_wait(ep, got, 64, -1);
		for (int i = 0; i < n; i++) {
			int fd = got[i].data.fd;
			if (fd == listener) {
				for (struct conn *c; (c = accept_one(listener));) {
					if (c->fd >= CONNS) { close(c->fd); free(c); continue; }
					conns[c->fd] = c;
					ev = (struct epoll_event){.events = EPOLLIN | EPOLLET | EPOLLRDHUP, .data.fd = c->fd};
					epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev);
				}
			} else if (fd == signals) {
				struct signalfd_siginfo info;
				while (read(signals, &info, sizeof info) == sizeof info)
					if (info.ssi_signo != SIGCHLD) {
						while (wait(NULL) > 0) {}
						return 0;
					}
				int status;
				for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
					for (int k = 0; k < CONNS; k++) {
						struct conn *c = conns[k];
						if (!c || c->child != pid) continue;
						c->child = 0;
						if (status || c->last) drop(c);
						else next(c);
						break;
					}
			} else if (conns[fd]) {
				struct conn *c = conns[fd];
				if (fill(c) <= 0) c->eof = 1;
				next(c);
			}
		}
	}
}
