// A server in front of a database, with a pool of two connections to the database. The database is
// a second process, which the server starts. A query takes 3 ms.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const (
	poolSize  = 2
	queryTime = 3 * time.Millisecond
)

// database runs one query at a time on each connection. Connections do not wait for each other.
func database() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer client.Close()
			in := bufio.NewReader(client)
			for {
				if _, err := in.ReadString('\n'); err != nil {
					return
				}
				time.Sleep(queryTime) // the disk of the database
				if _, err := io.WriteString(client, "row ok\n"); err != nil {
					return
				}
			}
		}()
	}
}

func startDatabase() (string, *exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(self, "--database")
	cmd.Stderr = os.Stderr
	// Not Pdeathsig, which depends on the thread that forked instead of the process. The database ends
	// when the pipe to its input is closed.
	if _, err := cmd.StdinPipe(); err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	return strings.TrimSpace(addr), cmd, err
}

type link struct {
	conn net.Conn
	in   *bufio.Reader
}

type pool chan *link

func newPool(addr string) (pool, error) {
	p := make(pool, poolSize)
	for range poolSize {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return nil, err
		}
		p <- &link{conn, bufio.NewReader(conn)}
	}
	return p, nil
}

func (p pool) query(ctx context.Context, q string) (string, error) {
	var l *link
	select {
	case l = <-p:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { p <- l }()
	if _, err := io.WriteString(l.conn, q+"\n"); err != nil {
		return "", err
	}
	row, err := l.in.ReadString('\n')
	return strings.TrimPrefix(strings.TrimSpace(row), "row "), err
}

func main() {
	port := flag.String("port", os.Getenv("PORT"), "port to listen on")
	asDatabase := flag.Bool("database", false, "be the database")
	flag.Parse()
	if *asDatabase {
		go database()
		io.Copy(io.Discard, os.Stdin) // until the server has ended
		return
	}
	addr, db, err := startDatabase()
	if err != nil {
		log.Fatal(err)
	}
	conns, err := newPool(addr)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		row, err := conns.query(r.Context(), "select state from health")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, row)
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
	db.Process.Kill()
	db.Wait()
}
