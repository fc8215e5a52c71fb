'use strict';

const cluster = require('node:cluster');
const fs = require('node:fs');
const http = require('node:http');
const http2 = require('node:http2');
const { parseArgs } = require('node:util');

const { values: options } = parseArgs({
  options: {
    port: { type: 'string' },
    // HTTP/2 instead of HTTP/1.1 on `port`: Node has no server for both.
    h2c: { type: 'boolean', default: false },
    'tls-port': { type: 'string' },
    cert: { type: 'string' },
    key: { type: 'string' },
    workers: { type: 'string', default: '1' },
  },
});

function send(res, status, type, body) {
  res.writeHead(status, {
    'Content-Type': type,
    'Content-Length': Buffer.byteLength(body),
  });
  res.end(body);
}

function hello(req, res) {
  switch (req.url) {
    case '/':
      return send(res, 200, 'text/plain', '.');
    case '/plaintext':
      return send(res, 200, 'text/plain', 'Hello, World!');
    case '/json':
      return send(res, 200, 'application/json', JSON.stringify({ message: 'Hello, World!' }));
    default:
      return send(res, 404, 'text/plain', 'Not Found');
  }
}

function servers() {
  const all = [];
  if (options.port) {
    const server = options.h2c ? http2.createServer(hello) : http.createServer(hello);
    all.push({ server, port: options.port });
  }
  if (options['tls-port']) {
    const server = http2.createSecureServer({
      allowHTTP1: true,
      cert: fs.readFileSync(options.cert),
      key: fs.readFileSync(options.key),
    }, hello);
    all.push({ server, port: options['tls-port'] });
  }
  return all;
}

function serve() {
  const all = servers();
  const connections = new Set();
  for (const { server, port } of all) {
    // The default of 5 s would close HTTP/1.1 connections that a slow load leaves idle.
    server.keepAliveTimeout = 60_000;
    server.on('connection', (socket) => {
      connections.add(socket);
      socket.on('close', () => connections.delete(socket));
    });
    server.listen(Number(port), '127.0.0.1');
  }

  process.on('SIGTERM', () => {
    let open = all.length;
    for (const { server } of all) server.close(() => --open || process.exit());
    // close() waits for connections that have never sent a request, and for all that speak HTTP/2.
    setTimeout(() => connections.forEach((socket) => socket.destroy()), 500).unref();
  });
}

// One process runs JavaScript on one CPU only; the cluster module is Node's way to use more.
const workers = Number(options.workers);
if (cluster.isPrimary && workers > 1) {
  for (let i = 0; i < workers; i++) cluster.fork();
  process.on('SIGTERM', () => {
    for (const worker of Object.values(cluster.workers)) worker.process.kill('SIGTERM');
  });
} else {
  serve();
}
