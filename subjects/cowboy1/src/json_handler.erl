-module(json_handler).
-behaviour(cowboy_http_handler).

-export([init/3, handle/2, terminate/3]).

init(_Transport, Req, Opts) ->
    {ok, Req, Opts}.

%% Text, as in Cowboy's own examples: it has no encoder.
handle(Req0, State) ->
    Body = <<"{\"message\":\"Hello, World!\"}">>,
    {ok, Req} = cowboy_req:reply(200, [{<<"content-type">>, <<"application/json">>}], Body, Req0),
    {ok, Req, State}.

terminate(_Reason, _Req, _State) ->
    ok.
