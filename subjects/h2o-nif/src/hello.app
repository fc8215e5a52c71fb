{application, hello, [
    {description, "The hello contract by libh2o inside the Erlang VM"},
    {vsn, "1"},
    {modules, [hello, hello_server, h2o_nif]},
    {registered, [hello, hello_server]},
    {applications, [kernel, stdlib]},
    {mod, {hello, []}}
]}.
