-module(plaintext_handler).
-behaviour(cowboy_http_handler).

-export([init/3, handle/2, terminate/3]).

init(_Transport, Req, Opts) ->
    {ok, Req, Opts}.

handle(Req0, State) ->
    {ok, Req} = cowboy_req:reply(200, [{<<"content-type">>, <<"text/plain">>}], <<"Hello, World!">>, Req0),
    {ok, Req, State}.

terminate(_Reason, _Req, _State) ->
    ok.
