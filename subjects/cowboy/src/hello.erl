-module(hello).

-export([start/0]).

start() ->
    {ok, _} = application:ensure_all_started(cowboy),
    ok = dyno_runtime:start(),
    Args = init:get_plain_arguments(),
    Opts = protocol_opts(lists:member("--stream", Args)),
    listen(plain, value("--port", Args), Opts, Args),
    listen(tls, value("--tls-port", Args), Opts, Args).

listen(_, none, _, _) ->
    ok;
listen(plain, Port, Opts, _) ->
    {ok, _} = cowboy:start_clear(plain, transport_opts(Port, []), Opts);
listen(tls, Port, Opts, Args) ->
    Files = [{certfile, value("--cert", Args)}, {keyfile, value("--key", Args)}],
    {ok, _} = cowboy:start_tls(tls, transport_opts(Port, Files), Opts).

%% max_connections: at the default of 1024 Cowboy accepts no more. shutdown: by default each of ten
%% supervisors of a port, one after the other, waits 5 s for connections that are open.
transport_opts(Port, More) ->
    #{
        max_connections => 16384,
        shutdown => brutal_kill,
        socket_opts => [{ip, {127, 0, 0, 1}}, {port, list_to_integer(Port)} | More]
    }.

%% Limits on what one connection may do: the defaults close it after 1000 requests, after 5 s
%% without one, and over HTTP/2 after 10000 frames within 10 s.
limits() ->
    #{
        max_keepalive => 1_000_000_000,
        request_timeout => 60_000,
        max_received_frame_rate => {1_000_000_000, 10_000}
    }.

protocol_opts(true) ->
    maps:put(stream_handlers, [hello_stream], limits());
protocol_opts(false) ->
    Dispatch = cowboy_router:compile([
        {'_', [
            {"/plaintext", plaintext_handler, []},
            {"/json", json_handler, []}
        ]}
    ]),
    maps:put(env, #{dispatch => Dispatch}, limits()).

value(Flag, [Flag, Value | _]) -> Value;
value(Flag, [_ | Rest]) -> value(Flag, Rest);
value(_, []) -> none.
