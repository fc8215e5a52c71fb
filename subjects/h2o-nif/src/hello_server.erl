%% The one process that all requests are sent to.
-module(hello_server).
-behaviour(gen_server).

-export([start_link/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, init:get_plain_arguments(), []).

init(Args) ->
    %% So that terminate/2 is called when the VM is told to end.
    process_flag(trap_exit, true),
    Port = list_to_integer(value("--port", Args, "0")),
    TlsPort = list_to_integer(value("--tls-port", Args, "0")),
    case h2o_nif:start(Port, TlsPort, value("--cert", Args, ""), value("--key", Args, "")) of
        {ok, Server} -> {ok, {Server, lists:member("--process-per-request", Args)}};
        {error, Reason} -> {stop, Reason}
    end.

handle_info({h2o_request, Request, _Method, Path}, {_, false} = State) ->
    reply(Request, Path),
    {noreply, State};
handle_info({h2o_request, Request, _Method, Path}, {_, true} = State) ->
    spawn(fun() -> reply(Request, Path) end),
    {noreply, State};
handle_info(_, State) ->
    {noreply, State}.

reply(Request, Path) ->
    {Status, Type, Body} = answer(Path),
    h2o_nif:reply(Request, Status, Type, Body).

answer(<<"/plaintext">>) ->
    {200, <<"text/plain">>, <<"Hello, World!">>};
answer(<<"/json">>) ->
    {200, <<"application/json">>, <<"{\"message\":\"Hello, World!\"}">>};
answer(_) ->
    {404, <<"text/plain">>, <<"Not Found">>}.

handle_call(_, _From, State) ->
    {reply, ok, State}.

handle_cast(_, State) ->
    {noreply, State}.

terminate(_Reason, {Server, _}) ->
    h2o_nif:stop(Server).

value(Flag, [Flag, Value | _], _) -> Value;
value(Flag, [_ | Rest], Default) -> value(Flag, Rest, Default);
value(_, [], Default) -> Default.
