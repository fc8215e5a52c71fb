-module(plaintext_handler).
-behaviour(cowboy_handler).

-export([init/2]).

init(Req0, State) ->
    Headers = #{<<"content-type">> => <<"text/plain">>},
    Req = cowboy_req:reply(200, Headers, <<"Hello, World!">>, Req0),
    {ok, Req, State}.
