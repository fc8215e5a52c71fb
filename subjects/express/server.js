'use strict';

const cluster = require('node:cluster');
const { parseArgs } = require('node:util');
const express = require('express');

const { values: options } = parseArgs({
  options: {
    port: { type: 'string' },
    workers: { type: 'string', default: '1' },
  },
});

function serve() {
  const app = express();

  app.get('/plaintext', (req, res) => {
    res.type('text/plain').send('Hello, World!');
  });

  app.get('/json', (req, res) => {
    res.json({ message: 'Hello, World!' });
  });

  const server = app.listen(Number(options.port), '127.0.0.1', (error) => {
    if (error) throw error;
  });
  // The default of 5 s would close connections that a slow load leaves idle.
  server.keepAliveTimeout = 60_000;

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
