package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

type message struct {
	Message string `json:"message"`
}

func plaintext(ctx *fasthttp.RequestCtx) {
	ctx.SetContentType("text/plain")
	ctx.SetBodyString("Hello, World!")
}

func jsonMessage(ctx *fasthttp.RequestCtx) {
	// Marshal, because an Encoder would end the body with a newline.
	body, err := json.Marshal(message{"Hello, World!"})
	if err != nil {
		ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(body)
}

func handle(ctx *fasthttp.RequestCtx) {
	switch string(ctx.Path()) {
	case "/plaintext":
		plaintext(ctx)
	case "/json":
		jsonMessage(ctx)
	default:
		ctx.Error("Not Found", fasthttp.StatusNotFound)
	}
}

func main() {
	port := flag.Int("port", 0, "port to listen on")
	flag.Parse()

	server := &fasthttp.Server{Handler: handle}
	failed := make(chan error)
	go func() { failed <- server.ListenAndServe(fmt.Sprintf("127.0.0.1:%d", *port)) }()

	term, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	select {
	case err := <-failed:
		log.Fatal(err)
	case <-term.Done():
	}
	// Shutdown alone would wait for connections that stay open.
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	server.ShutdownWithContext(ctx)
}
