package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"runtime/metrics"
)

// told are the names of what the runtime tells, by its own names for them.
var told = map[string]string{
	"/cpu/classes/gc/total:cpu-seconds":  "gc_cpu_seconds_total",
	"/gc/cycles/total:gc-cycles":         "gc_cycles_total",
	"/gc/heap/allocs:bytes":              "allocated_bytes_total",
	"/sync/mutex/wait/total:seconds":     "mutex_wait_seconds_total",
	"/memory/classes/heap/objects:bytes": "heap_bytes",
	"/sched/goroutines:goroutines":       "goroutines",
}

// tellRuntime answers each client at path.PID with statistics of the Go runtime.
func tellRuntime(path string) {
	listener, err := net.Listen("unix", fmt.Sprintf("%s.%d", path, os.Getpid()))
	if err != nil {
		log.Print(err)
		return
	}
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		json.NewEncoder(client).Encode(values())
		client.Close()
	}
}

func values() map[string]float64 {
	samples := make([]metrics.Sample, 0, len(told))
	for name := range told {
		samples = append(samples, metrics.Sample{Name: name})
	}
	metrics.Read(samples)
	all := make(map[string]float64)
	for _, sample := range samples {
		switch sample.Value.Kind() {
		case metrics.KindUint64:
			all[told[sample.Name]] = float64(sample.Value.Uint64())
		case metrics.KindFloat64:
			all[told[sample.Name]] = sample.Value.Float64()
		}
	}
	return all
}
