// A vote counter that loses no vote. Before it responds, it syncs the vote in the journal and the
// new total in a state file, which is replaced atomically. It has one thread with an event loop.
#include "http.h"
#include <fcntl.h>
#include <sys/stat.h>

static char dir[4096];
static int journal, folder;
static uint64_t total;
static off_t at;

static void open_store(void) {
	const char *where = getenv("STORE");
	if (!where) die("STORE");
	snprintf(dir, sizeof dir, "%s/votes.XXXXXX", where);
	if (!mkdtemp(dir)) die(dir);
	folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	journal = openat(folder, "journal", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (folder < 0 || journal < 0) die(dir);
}

static void remove_store(void) {
	unlinkat(folder, "journal", 0);
	unlinkat(folder, "total.new", 0);
	unlinkat(folder, "total", 0);
	rmdir(dir);
}

static void vote(void) {
	char line[128];
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	int n = snprintf(line, sizeof line, "%lld.%09ld vote %llu\n", (long long)now.tv_sec,
			now.tv_nsec, (unsigned long long)++total);
	if (at > 4 << 20) { // a new segment
		if (ftruncate(journal, 0)) die("ftruncate");
		at = 0;
	}
	if (pwrite(journal, line, n, at) != n || fsync(journal)) die("journal");
	at += n;
	int fd = openat(folder, "total.new", O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, line, n) != n || fsync(fd)) die("total.new");
	close(fd);
	if (renameat(folder, "total.new", folder, "total") || fsync(folder)) die("total");
}

int main(int argc, char **argv) {
	open_store();
	atexit(remove_store);
	int listener = listen_on(port_of(argc, argv)), ep = begin(listener);
	struct epoll_event ev, got[64];
	while (!over) {
		int n = epoll_wait(ep, got, 64, -1);
		for (int i = 0; i < n && !over; i++) {
			struct conn *c = got[i].data.ptr;
			if (!c) {
				while ((c = accept_one(listener))) {
					ev = (struct epoll_event){.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
					epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev);
				}
				continue;
			}
			int open = fill(c) > 0, r = 0;
			while ((r = take(c)) > 0) {
				if (c->status == 200) vote();
				if (answer(c) || c->last) { open = 0; break; }
			}
			if (!open || r < 0) { close(c->fd); free(c); }
		}
	}
	return 0;
}
