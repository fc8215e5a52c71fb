%% libh2o: the process that starts it is sent {h2o_request, Request, Method, Path} for each request,
%% and somebody replies.
-module(h2o_nif).

-export([start/4, reply/4, stop/1]).
-on_load(load/0).

load() ->
    erlang:load_nif(filename:join(code:priv_dir(hello), "h2o_nif"), 0).

start(_Port, _TlsPort, _CertFile, _KeyFile) ->
    erlang:nif_error(not_loaded).

reply(_Request, _Status, _Type, _Body) ->
    erlang:nif_error(not_loaded).

stop(_Server) ->
    erlang:nif_error(not_loaded).
