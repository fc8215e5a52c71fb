'use strict';
// Serves the statistics of Node.js at the socket `$DYNO_RUNTIME.PID`, as one JSON object of numbers
// per connection. dyno starts servers with it (`--require`). It is idle without connections.
// Garbage collection is omitted, because an observer of it costs 3 % of the throughput.

const cluster = require('node:cluster');
const net = require('node:net');
const { performance } = require('node:perf_hooks');
const v8 = require('node:v8');
const { isMainThread } = require('node:worker_threads');

// The primary process of a cluster serves no requests: its idle loop is not the server's.
function isServing() {
  return !cluster.isPrimary || Object.keys(cluster.workers ?? {}).length === 0;
}

function values() {
  const { active, idle } = performance.eventLoopUtilization();
  return {
    event_loop_active_seconds_total: active / 1e3,
    event_loop_idle_seconds_total: idle / 1e3,
    heap_bytes: v8.getHeapStatistics().used_heap_size,
  };
}

function respond(socket) {
  socket.on('error', () => {});
  socket.end(JSON.stringify(isServing() ? values() : {}));
}

if (process.env.DYNO_RUNTIME && isMainThread) {
  const server = net.createServer(respond);
  // If the socket cannot be opened, the server runs without statistics.
  server.on('error', () => {});
  server.listen({ path: `${process.env.DYNO_RUNTIME}.${process.pid}`, exclusive: true });
  server.unref();
}
