'use strict';

const cluster = require('node:cluster');
const fs = require('node:fs');
const { parseArgs } = require('node:util');
const Fastify = require('fastify');

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

function app(more) {
  const fastify = Fastify(more);

  fastify.get('/plaintext', async (request, reply) => {
    reply.type('text/plain');
    return 'Hello, World!';
  });

  fastify.get('/json', async () => {
    return { message: 'Hello, World!' };
  });

  return fastify;
}

async function serve() {
  const apps = [];
  process.on('SIGTERM', async () => {
    // close() waits for connections that have never sent a request, and for all that speak HTTP/2.
    setTimeout(() => process.exit(), 500);
    await Promise.all(apps.map((fastify) => fastify.close()));
    process.exit();
  });

  if (options.port) {
    const fastify = app(options.h2c ? { http2: true } : {});
    apps.push(fastify);
    await fastify.listen({ host: '127.0.0.1', port: Number(options.port) });
  }
  if (options['tls-port']) {
    const https = {
      allowHTTP1: true,
      cert: fs.readFileSync(options.cert),
      key: fs.readFileSync(options.key),
    };
    const fastify = app({ http2: true, https });
    apps.push(fastify);
    await fastify.listen({ host: '127.0.0.1', port: Number(options['tls-port']) });
  }
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
