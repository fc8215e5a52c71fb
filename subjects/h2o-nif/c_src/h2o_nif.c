/* libh2o as a NIF: its event loop runs in a thread of its own, sends each request as a message to
 * one Erlang process, and is handed the answer by a NIF, in whatever process that is called. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <erl_nif.h>

#define H2O_USE_LIBUV 0
#include <h2o.h>
#include <h2o/http1.h>
#include <h2o/http2.h>

/* A server lives as long as the VM: late answers may come after its loop has ended. */
typedef struct {
    h2o_globalconf_t config;
    h2o_context_t context;
    h2o_accept_ctx_t plain, tls;
    h2o_multithread_receiver_t answers;
    ErlNifPid owner;
    ErlNifTid thread;
    atomic_int stopping;
} server_t;

typedef struct {
    h2o_handler_t super;
    server_t *server;
} handler_t;

/* A request between h2o and Erlang. Erlang owes one message back; h2o may have disposed of the
 * request by then. Whichever comes last frees it, and both come in the thread of the loop. */
typedef struct {
    h2o_multithread_message_t super;
    server_t *server;
    h2o_req_t *request; /* NULL once it is disposed of; for the thread of the loop alone */
    int answered;       /* for the thread of the loop alone */
    int status;
    char *text; /* the type, then the body */
    size_t type_length, body_length;
} exchange_t;

/* What Erlang holds of an exchange, until it has answered. */
typedef struct {
    _Atomic(exchange_t *) exchange;
} ticket_t;

static ErlNifResourceType *server_type, *ticket_type;

static void free_exchange(exchange_t *exchange)
{
    free(exchange->text);
    free(exchange);
}

static void hand_back(exchange_t *exchange)
{
    h2o_multithread_send_message(&exchange->server->answers, &exchange->super);
}

/* No request holds the ticket any more: without an answer by now there will be none. Erlang finds
 * that out when it next collects the garbage of those who held it. */
static void on_ticket_lost(ErlNifEnv *env, void *resource)
{
    exchange_t *exchange = atomic_exchange(&((ticket_t *)resource)->exchange, NULL);
    if (exchange != NULL) {
        exchange->status = 500;
        hand_back(exchange);
    }
}

/* In the thread of the loop. */

static void on_request_disposed(void *link)
{
    exchange_t *exchange = *(exchange_t **)link;
    exchange->request = NULL;
    if (exchange->answered)
        free_exchange(exchange);
}

static const char *reason_of(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 404:
        return "Not Found";
    case 500:
        return "Internal Server Error";
    default:
        return "Other";
    }
}

static void respond(exchange_t *exchange)
{
    h2o_req_t *request = exchange->request;
    request->res.status = exchange->status;
    request->res.reason = reason_of(exchange->status);
    request->res.content_length = exchange->body_length;
    if (exchange->type_length != 0) {
        h2o_iovec_t type = h2o_strdup(&request->pool, exchange->text, exchange->type_length);
        h2o_add_header(&request->pool, &request->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL,
                       type.base, type.len);
    }
    /* Copies the body, and leaves it out of an answer to HEAD. The exchange may be gone
     * afterwards. */
    h2o_send_inline(request, exchange->text + exchange->type_length, exchange->body_length);
}

static void on_answers(h2o_multithread_receiver_t *receiver, h2o_linklist_t *messages)
{
    while (!h2o_linklist_is_empty(messages)) {
        exchange_t *exchange = H2O_STRUCT_FROM_MEMBER(exchange_t, super.link, messages->next);
        h2o_linklist_unlink(&exchange->super.link);
        exchange->answered = 1;
        if (exchange->request == NULL)
            free_exchange(exchange);
        else
            respond(exchange);
    }
}

static ERL_NIF_TERM make_binary(ErlNifEnv *env, h2o_iovec_t text)
{
    ERL_NIF_TERM binary;
    memcpy(enif_make_new_binary(env, text.len, &binary), text.base, text.len);
    return binary;
}

static int on_request(h2o_handler_t *handler, h2o_req_t *request)
{
    server_t *server = ((handler_t *)handler)->server;
    exchange_t *exchange = h2o_mem_alloc(sizeof(*exchange));
    *exchange = (exchange_t){.server = server, .request = request};
    exchange_t **link = h2o_mem_alloc_shared(&request->pool, sizeof(*link), on_request_disposed);
    *link = exchange;

    ErlNifEnv *env = enif_alloc_env();
    ticket_t *ticket = enif_alloc_resource(ticket_type, sizeof(*ticket));
    atomic_init(&ticket->exchange, exchange);
    ERL_NIF_TERM message = enif_make_tuple4(
        env, enif_make_atom(env, "h2o_request"), enif_make_resource(env, ticket),
        make_binary(env, request->method), make_binary(env, request->path_normalized));
    enif_release_resource(ticket);
    /* If the owner is gone, the ticket goes with the message. */
    enif_send(NULL, &server->owner, env, message);
    enif_free_env(env);
    return 0;
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

static void *run(void *argument)
{
    server_t *server = argument;
    while (!atomic_load(&server->stopping))
        h2o_evloop_run(server->context.loop, INT32_MAX);
    return NULL;
}

/* Called by Erlang. */

static ERL_NIF_TERM make_error(ErlNifEnv *env, const char *reason)
{
    return enif_make_tuple2(env, enif_make_atom(env, "error"),
                            enif_make_string(env, reason, ERL_NIF_LATIN1));
}

/* A socket that listens, or -1. */
static int bind_port(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd != -1 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    if (fd != -1)
        close(fd);
    return -1;
}

static SSL_CTX *load_certificate(const char *cert, const char *key)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (context == NULL)
        return NULL;
    if (SSL_CTX_use_certificate_chain_file(context, cert) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1) {
        SSL_CTX_free(context);
        return NULL;
    }
    h2o_ssl_register_alpn_protocols(context, h2o_http2_alpn_protocols);
    return context;
}

static void listen_on(server_t *server, h2o_accept_ctx_t *accept, int fd, SSL_CTX *ssl)
{
    *accept = (h2o_accept_ctx_t){
        .ctx = &server->context, .hosts = server->config.hosts, .ssl_ctx = ssl};
    h2o_socket_t *listener =
        h2o_evloop_socket_create(server->context.loop, fd, H2O_SOCKET_FLAG_DONT_READ);
    listener->data = accept;
    h2o_socket_read_start(listener, on_connection);
}

static void configure(server_t *server)
{
    h2o_config_init(&server->config);
    /* They also close idle connections; the default of 10 s would hit a slow load. */
    server->config.http1.req_timeout = 60 * 1000;
    server->config.http2.idle_timeout = 60 * 1000;
    h2o_hostconf_t *host =
        h2o_config_register_host(&server->config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
    handler_t *handler =
        (handler_t *)h2o_create_handler(h2o_config_register_path(host, "/", 0), sizeof(*handler));
    handler->super.on_req = on_request;
    handler->server = server;
}

/* start(Port, TlsPort, CertFile, KeyFile) -> {ok, Server} | {error, Reason}: without TLS, TlsPort
 * is 0. */
static ERL_NIF_TERM start(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    char cert[4096], key[4096];
    int port, tls_port, tls_fd = -1;
    SSL_CTX *ssl = NULL;
    if (!enif_get_int(env, argv[0], &port) || !enif_get_int(env, argv[1], &tls_port) ||
        enif_get_string(env, argv[2], cert, sizeof(cert), ERL_NIF_LATIN1) <= 0 ||
        enif_get_string(env, argv[3], key, sizeof(key), ERL_NIF_LATIN1) <= 0)
        return enif_make_badarg(env);

    if (tls_port != 0 && (ssl = load_certificate(cert, key)) == NULL)
        return make_error(env, "the certificate or the key cannot be read");
    int fd = bind_port(port);
    if (fd == -1 || (tls_port != 0 && (tls_fd = bind_port(tls_port)) == -1)) {
        const char *reason = strerror(errno);
        if (fd != -1)
            close(fd);
        SSL_CTX_free(ssl);
        return make_error(env, reason);
    }

    server_t *server = enif_alloc_resource(server_type, sizeof(*server));
    memset(server, 0, sizeof(*server));
    enif_self(env, &server->owner);
    configure(server);
    h2o_context_init(&server->context, h2o_evloop_create(), &server->config);
    h2o_multithread_register_receiver(server->context.queue, &server->answers, on_answers);
    listen_on(server, &server->plain, fd, NULL);
    if (tls_port != 0)
        listen_on(server, &server->tls, tls_fd, ssl);
    if (enif_thread_create("h2o", &server->thread, run, server, NULL) != 0)
        return make_error(env, "no thread can be made");
    /* The reference of enif_alloc_resource stays: see server_t. */
    return enif_make_tuple2(env, enif_make_atom(env, "ok"), enif_make_resource(env, server));
}

/* reply(Request, Status, Type, Body) -> ok | {error, Reason}. */
static ERL_NIF_TERM reply(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    ticket_t *ticket;
    int status;
    ErlNifBinary type, body;
    if (!enif_get_resource(env, argv[0], ticket_type, (void **)&ticket) ||
        !enif_get_int(env, argv[1], &status) || !enif_inspect_binary(env, argv[2], &type) ||
        !enif_inspect_iolist_as_binary(env, argv[3], &body))
        return enif_make_badarg(env);

    exchange_t *exchange = atomic_exchange(&ticket->exchange, NULL);
    if (exchange == NULL)
        return make_error(env, "it is answered already");
    exchange->status = status;
    exchange->text = h2o_mem_alloc(type.size + body.size);
    memcpy(exchange->text, type.data, type.size);
    memcpy(exchange->text + type.size, body.data, body.size);
    exchange->type_length = type.size;
    exchange->body_length = body.size;
    hand_back(exchange);
    return enif_make_atom(env, "ok");
}

/* stop(Server) -> ok: ends the loop, so that it does not run any more while the VM exits. */
static ERL_NIF_TERM stop(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    server_t *server;
    if (!enif_get_resource(env, argv[0], server_type, (void **)&server))
        return enif_make_badarg(env);
    if (atomic_exchange(&server->stopping, 1) == 0) {
        h2o_multithread_send_message(&server->answers, NULL);
        enif_thread_join(server->thread, NULL);
    }
    return enif_make_atom(env, "ok");
}

static int load(ErlNifEnv *env, void **priv_data, ERL_NIF_TERM info)
{
    server_type = enif_open_resource_type(env, NULL, "h2o_server", NULL, ERL_NIF_RT_CREATE, NULL);
    ticket_type =
        enif_open_resource_type(env, NULL, "h2o_request", on_ticket_lost, ERL_NIF_RT_CREATE, NULL);
    return server_type == NULL || ticket_type == NULL;
}

static ErlNifFunc functions[] = {
    {"start", 4, start, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"reply", 4, reply, 0},
    {"stop", 1, stop, ERL_NIF_DIRTY_JOB_IO_BOUND},
};

ERL_NIF_INIT(h2o_nif, functions, load, NULL, NULL, NULL)
