-module(hello).

-export([start/0]).

start() ->
    {ok, _} = application:ensure_all_started(cowboy),
    ["--port", Port] = init:get_plain_arguments(),
    Dispatch = cowboy_router:compile([
        {'_', [
            {"/plaintext", plaintext_handler, []},
            {"/json", json_handler, []}
        ]}
    ]),
    %% max_connections: at the default of 1024 Cowboy accepts no more.
    TransOpts = [{ip, {127, 0, 0, 1}}, {port, list_to_integer(Port)}, {max_connections, 16384}],
    %% The defaults close a connection after 100 requests, and after 5 s without one.
    ProtoOpts = [{env, [{dispatch, Dispatch}]}, {max_keepalive, 1_000_000_000}, {timeout, 60_000}],
    {ok, _} = cowboy:start_http(http, 100, TransOpts, ProtoOpts).
