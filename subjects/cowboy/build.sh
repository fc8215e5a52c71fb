#!/bin/sh
# Cowboy and what it depends on come from Erlang's code path if they are there, else out of Debian's package of RabbitMQ,
# which brings them along: it is unpacked, and not installed.
set -eu
out=$1
cache=$2

mkdir -p "$out/ebin"
if ! erl -noinput -eval 'halt(case code:which(cowboy) of non_existing -> 1; _ -> 0 end).'; then
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
