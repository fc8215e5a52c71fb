/* libh2o with handlers in C: an event loop and a listening socket per CPU that it may use, as the
 * article's and TechEmpower's. */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define H2O_USE_LIBUV 0
#include <h2o.h>
#include <h2o/http1.h>
#include <h2o/http2.h>

typedef struct {
    h2o_handler_t super;
    h2o_iovec_t type, body;
} page_t;

/* A thread's part of the server. Loops share the configuration, and nothing that changes. */
typedef struct {
    h2o_context_t context;
    h2o_accept_ctx_t accept;
} loop_t;

static void fail(const char *what)
{
    fprintf(stderr, "libh2o: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int on_request(h2o_handler_t *handler, h2o_req_t *request)
{
    page_t *page = (page_t *)handler;
    /* h2o hands over whatever begins with the path; the rest is for its own 404. */
    if (request->path_normalized.len != request->pathconf->path.len)
        return -1;
    request->res.status = 200;
    request->res.reason = "OK";
    request->res.content_length = page->body.len;
    h2o_add_header(&request->pool, &request->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL,
                   page->type.base, page->type.len);
    h2o_send_inline(request, page->body.base, page->body.len);
    return 0;
}

static void add_page(h2o_hostconf_t *host, const char *path, h2o_iovec_t type, h2o_iovec_t body)
{
    page_t *page =
        (page_t *)h2o_create_handler(h2o_config_register_path(host, path, 0), sizeof(*page));
    page->super.on_req = on_request;
    page->type = type;
    page->body = body;
}

static void on_connection(h2o_socket_t *listener, const char *error)
{
    h2o_socket_t *socket;
    if (error != NULL)
        return;
    /* Not for ever, so that the connections which are open have their turn. */
    for (int i = 0; i != 16 && (socket = h2o_evloop_socket_accept(listener)) != NULL; i++)
        h2o_accept(listener->data, socket);
}

/* A socket that listens, beside others on the same port. */
static int bind_port(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd == -1 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, SOMAXCONN) != 0)
        fail("cannot listen");
    return fd;
}

static void *run(void *argument)
{
    loop_t *loop = argument;
    while (h2o_evloop_run(loop->context.loop, INT32_MAX) == 0)
        ;
    return NULL;
}

static loop_t *make_loop(h2o_globalconf_t *config, int port)
{
    loop_t *loop = h2o_mem_alloc(sizeof(*loop));
    memset(loop, 0, sizeof(*loop));
    h2o_context_init(&loop->context, h2o_evloop_create(), config);
    loop->accept = (h2o_accept_ctx_t){.ctx = &loop->context, .hosts = config->hosts};
    h2o_socket_t *listener = h2o_evloop_socket_create(loop->context.loop, bind_port(port),
                                                      H2O_SOCKET_FLAG_DONT_READ);
    listener->data = &loop->accept;
    h2o_socket_read_start(listener, on_connection);
    return loop;
}

static int usable_cpus(void)
{
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
}

static void on_terminate(int signal)
{
    _exit(0);
}

int main(int argc, char **argv)
{
    int port = argc == 2 ? atoi(argv[1]) : 0;
    if (port <= 0) {
        fprintf(stderr, "usage: server PORT\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, on_terminate);

    h2o_globalconf_t config;
    h2o_config_init(&config);
    /* They also close idle connections; the default of 10 s would hit a slow load. */
    config.http1.req_timeout = 60 * 1000;
    config.http2.idle_timeout = 60 * 1000;
    h2o_hostconf_t *host =
        h2o_config_register_host(&config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
    add_page(host, "/plaintext", h2o_iovec_init(H2O_STRLIT("text/plain")),
             h2o_iovec_init(H2O_STRLIT("Hello, World!")));
    add_page(host, "/json", h2o_iovec_init(H2O_STRLIT("application/json")),
             h2o_iovec_init(H2O_STRLIT("{\"message\":\"Hello, World!\"}")));

    int threads = usable_cpus();
    loop_t *own = make_loop(&config, port);
    for (int i = 1; i < threads; i++) {
        pthread_t thread;
        if ((errno = pthread_create(&thread, NULL, run, make_loop(&config, port))) != 0)
            fail("cannot start a thread");
    }
    run(own);
    return 0;
}
