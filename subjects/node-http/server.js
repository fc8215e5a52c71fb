'use strict';

const cluster = require('node:cluster');
const http = require('node:http');
const { parseArgs } = require('node:util');

const { values: options } = parseArgs({
  options: {
    port: { type: 'string', default: '8080' },
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

function serve() {
  const server = http.createServer((req, res) => {
    switch (req.url) {
      case '/plaintext':
        return send(res, 200, 'text/plain', 'Hello, World!');
      case '/json':
        return send(res, 200, 'application/json', JSON.stringify({ message: 'Hello, World!' }));
      default:
        return send(res, 404, 'text/plain', 'Not Found');
    }
  });
  // The default of 5 s would close connections that a slow load leaves idle.
  server.keepAliveTimeout = 60_000;
  server.listen(Number(options.port), '127.0.0.1');

  process.on('SIGTERM', () => {
    server.close(() => process.exit());
    // close() waits for connections that have never sent a request.
    setTimeout(() => server.closeAllConnections(), 500).unref();
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
