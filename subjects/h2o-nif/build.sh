#!/bin/sh
set -eu
app=$1/hello

mkdir -p "$app/ebin" "$app/priv"
include=$(erl -noinput -eval '
    io:put_chars(filename:join([code:root_dir(), "usr", "include"])), halt().
')
# shellcheck disable=SC2046 # pkg-config prints several words
cc -std=c11 -D_GNU_SOURCE -O2 -Wall -fPIC -shared \
    -I "$include" $(pkg-config --cflags libh2o-evloop) \
    -o "$app/priv/h2o_nif.so" c_src/h2o_nif.c $(pkg-config --libs libh2o-evloop libssl libcrypto)
erlc -o "$app/ebin" src/*.erl
cp src/hello.app "$app/ebin"
