%% Writes the BEAM's statistics as JSON to every client of the socket that DYNO_RUNTIME names.
-module(dyno_runtime).

-export([start/0]).

start() ->
    case os:getenv("DYNO_RUNTIME") of
        false -> ok;
        Path -> _ = spawn(fun() -> listen(Path ++ "." ++ os:getpid()) end), ok
    end.

listen(Path) ->
    %% Times are counted for as long as the process lives that asked for them.
    erlang:system_flag(scheduler_wall_time, true),
    {ok, Listener} = gen_tcp:listen(0, [binary, {active, false}, {ifaddr, {local, Path}}]),
    tell(Listener).

tell(Listener) ->
    {ok, Client} = gen_tcp:accept(Listener),
    _ = gen_tcp:send(Client, json(values())),
    gen_tcp:close(Client),
    tell(Listener).

values() ->
    Schedulers = erlang:system_info(schedulers_online),
    Times = [
        {Active, Total}
        || {Id, Active, Total} <- erlang:statistics(scheduler_wall_time), Id =< Schedulers
    ],
    Active = lists:sum([A || {A, _} <- Times]),
    Total = lists:sum([T || {_, T} <- Times]),
    {Cycles, Words, _} = erlang:statistics(garbage_collection),
    {Reductions, _} = erlang:statistics(reductions),
    [
        %% Their unit is not defined, but their ratio is.
        {"schedulers_active_total", Active},
        {"schedulers_idle_total", Total - Active},
        {"gc_cycles_total", Cycles},
        {"gc_reclaimed_bytes_total", Words * erlang:system_info(wordsize)},
        {"reductions_total", Reductions},
        {"processes", erlang:system_info(process_count)},
        {"memory_bytes", erlang:memory(total)}
    ].

json(Values) ->
    Members = [io_lib:format("\"~s\":~b", [Name, Value]) || {Name, Value} <- Values],
    ["{", lists:join(",", Members), "}"].
