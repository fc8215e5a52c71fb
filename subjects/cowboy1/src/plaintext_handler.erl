-module(plaintext_handler).
-behaviour(cowboy_http_handler).

-export([init/3, handle/2, terminate/3]).

init(_Transport, Req, Opts) ->
    {ok, Req, Opts}.

handle(Req0, State) ->
    Headers = [{<<"content-type">>, <<"text/plain">>}],
    {ok, Req} = cowboy_req:reply(200, Headers, <<"Hello, World!">>, Req0),
    {ok, Req, State}.

terminate(_Reason, _Req, _State) ->
    ok.
