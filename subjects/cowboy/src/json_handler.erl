-module(json_handler).
-behaviour(cowboy_handler).

-export([init/2]).

%% Text, as in Cowboy's own examples: it has no encoder.
init(Req0, State) ->
    Body = <<"{\"message\":\"Hello, World!\"}">>,
    Req = cowboy_req:reply(200, #{<<"content-type">> => <<"application/json">>}, Body, Req0),
    {ok, Req, State}.
