// A gateway to a serial field bus. The bus transfers one exchange at a time, so handlers share a
// mutex. They hold the mutex while the frame is built and while the line settles (4 ms).
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

const settle = 4 * time.Millisecond

type bus struct {
	mu    sync.Mutex
	frame [256]byte
	seq   uint32
}

func crc16(data []byte) uint16 {
	crc := uint16(0xffff)
	for _, b := range data {
		crc ^= uint16(b)
		for range 8 {
			if crc&1 != 0 {
				crc = crc>>1 ^ 0xa001
			} else {
				crc >>= 1
			}
		}
	}
	return crc
}

func (b *bus) exchange() uint16 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	binary.BigEndian.PutUint32(b.frame[:], b.seq)
	sum := crc16(b.frame[:])
	time.Sleep(settle)
	return sum
}

func main() {
	port := flag.String("port", os.Getenv("PORT"), "port to listen on")
	flag.Parse()
	line := new(bus)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		line.exchange()
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "ok")
	})
	server := &http.Server{Addr: "127.0.0.1:" + *port, Handler: mux}
	term, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	go func() {
		if err := server.ListenAndServe(); err != http.ErrServerClosed {
			log.Fatal(err)
		}
	}()
	<-term.Done()
	server.Close()
}
