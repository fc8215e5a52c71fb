#!/bin/sh
# Cowboy 2 and what it depends on come from Erlang's code path if they are there, else out of
# Debian's package of RabbitMQ, which brings them along: it is unpacked, and not installed. There
# they come before a Cowboy 1 of the code path.
set -eu
out=$1
cache=$2

mkdir -p "$out/ebin"
if ! erl -noinput -eval '
    _ = application:load(cowboy),
    halt(case application:get_key(cowboy, vsn) of {ok, "2." ++ _} -> 0; _ -> 1 end).
'; then
    mkdir -p "$cache"
    if ! ls "$cache"/rabbitmq-server_*.deb >/dev/null 2>&1; then
        mkdir download
        (cd download && apt-get download rabbitmq-server)
        mv download/*.deb "$cache"
    fi
    dpkg-deb --extract "$cache"/rabbitmq-server_*.deb package
    for app in cowboy cowlib ranch; do
        cp package/usr/lib/rabbitmq/lib/*/plugins/$app-*/ebin/* "$out/ebin"
    done
fi
erlc -pa "$out/ebin" -o "$out/ebin" src/*.erl
