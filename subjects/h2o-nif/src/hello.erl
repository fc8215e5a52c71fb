-module(hello).
-behaviour(application).
-behaviour(supervisor).

-export([start/0, start/2, stop/1, init/1]).

%% For `erl -s hello`. Permanent: without its server the VM is to end.
start() ->
    ok = application:start(?MODULE, permanent).

start(_Type, _Args) ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, []).

stop(_State) ->
    ok.

init([]) ->
    Server = #{id => hello_server, start => {hello_server, start_link, []}},
    {ok, {#{intensity => 0}, [Server]}}.
