package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

type message struct {
	Message string `json:"message"`
}

func plaintext(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, "Hello, World!")
}

func jsonMessage(w http.ResponseWriter, r *http.Request) {
	// Marshal, because an Encoder would end the body with a newline.
	body, err := json.Marshal(message{"Hello, World!"})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(body)
}

// protocols are those that a plain port speaks; a TLS port has the defaults, HTTP/1.1 and HTTP/2.
func protocols(h2c bool) *http.Protocols {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(h2c)
	return protocols
}

func main() {
	port := flag.Int("port", 0, "port to listen on")
	h2c := flag.Bool("h2c", false, "speak HTTP/2 on it too")
	tlsPort := flag.Int("tls-port", 0, "port to listen on with TLS")
	cert := flag.String("cert", "", "file with the certificates")
	key := flag.String("key", "", "file with the key")
	flag.Parse()
	if path := os.Getenv("DYNO_RUNTIME"); path != "" {
		go tellRuntime(path)
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /plaintext", plaintext)
	mux.HandleFunc("GET /json", jsonMessage)

	var servers []*http.Server
	failed := make(chan error)
	if *port != 0 {
		server := &http.Server{
			Addr:      fmt.Sprintf("127.0.0.1:%d", *port),
			Handler:   mux,
			Protocols: protocols(*h2c),
		}
		servers = append(servers, server)
		go func() { failed <- server.ListenAndServe() }()
	}
	if *tlsPort != 0 {
		server := &http.Server{Addr: fmt.Sprintf("127.0.0.1:%d", *tlsPort), Handler: mux}
		servers = append(servers, server)
		go func() { failed <- server.ListenAndServeTLS(*cert, *key) }()
	}

	term, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	select {
	case err := <-failed:
		log.Fatal(err)
	case <-term.Done():
	}
	// Shutdown would wait 5 s for connections that never sent a request.
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	for _, server := range servers {
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
	}
}
