'use strict';
// Tells whoever connects to `$DYNO_RUNTIME.PID` what Node.js knows of itself, as one JSON object of numbers. dyno starts servers
// with it (`--require`); it does nothing until it is asked, but for adding up how long garbage was collected.

const cluster = require('node:cluster');
const net = require('node:net');
const { PerformanceObserver, performance } = require('node:perf_hooks');
const v8 = require('node:v8');
const { isMainThread } = require('node:worker_threads');

let gcMs = 0;
let gcs = 0;

function count(list) {
  for (const { duration } of list.getEntries()) {
    gcMs += duration;
    gcs += 1;
  }
}

// The primary process of a cluster serves nobody: its idle loop is not the server's.
function isServing() {
  return !cluster.isPrimary || Object.keys(cluster.workers ?? {}).length === 0;
}

function values() {
  const { active, idle } = performance.eventLoopUtilization();
  return {
    event_loop_active_seconds_total: active / 1e3,
    event_loop_idle_seconds_total: idle / 1e3,
    gc_seconds_total: gcMs / 1e3,
    gc_cycles_total: gcs,
    heap_bytes: v8.getHeapStatistics().used_heap_size,
  };
}

function tell(socket) {
  socket.on('error', () => {});
  socket.end(JSON.stringify(isServing() ? values() : {}));
}

if (process.env.DYNO_RUNTIME && isMainThread) {
  new PerformanceObserver(count).observe({ entryTypes: ['gc'] });
  const server = net.createServer(tell);
  // Without it a server is as it was.
  server.on('error', () => {});
  server.listen({ path: `${process.env.DYNO_RUNTIME}.${process.pid}`, exclusive: true });
  server.unref();
}
