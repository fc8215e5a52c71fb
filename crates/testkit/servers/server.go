// An HTTP server with a known bottleneck: server PORT sleep|lock
package main

import (
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

var lock sync.Mutex

func main() {
	mode := os.Args[2]
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		switch mode {
		case "sleep":
			time.Sleep(20 * time.Millisecond)
		case "lock":
			lock.Lock()
			time.Sleep(3 * time.Millisecond)
			lock.Unlock()
		}
		io.WriteString(w, "Hello, World!")
	})
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
