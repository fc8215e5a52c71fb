%% Answers in the process of the connection, where cowboy_stream_h would start one for each request.
-module(hello_stream).
-behaviour(cowboy_stream).

-export([init/3, data/4, info/3, terminate/3, early_error/5]).

init(_StreamID, #{method := Method, path := Path}, _Opts) ->
    {Status, Type, Body} = answer(Path),
    %% cowboy_req:reply would set the length, and leave the body of an answer to HEAD out.
    Headers = #{
        <<"content-type">> => Type,
        <<"content-length">> => integer_to_binary(byte_size(Body))
    },
    {[{response, Status, Headers, body(Method, Body)}, stop], undefined}.

answer(<<"/plaintext">>) ->
    {200, <<"text/plain">>, <<"Hello, World!">>};
answer(<<"/json">>) ->
    {200, <<"application/json">>, <<"{\"message\":\"Hello, World!\"}">>};
answer(_) ->
    {404, <<"text/plain">>, <<"Not Found">>}.

body(<<"HEAD">>, _) -> <<>>;
body(_, Body) -> Body.

data(_StreamID, _IsFin, _Data, State) ->
    {[], State}.

info(_StreamID, _Info, State) ->
    {[], State}.

terminate(_StreamID, _Reason, _State) ->
    ok.

early_error(_StreamID, _Reason, _PartialReq, Resp, _Opts) ->
    Resp.
