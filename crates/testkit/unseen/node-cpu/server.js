'use strict';
// A product listing. Every request filters, sorts and groups the products, renders them as JSON and
// computes the digest for an ETag, all on the only thread that runs JavaScript.
const http = require('node:http');
const crypto = require('node:crypto');

const at = process.argv.indexOf('--port');
const port = Number(at > 0 ? process.argv[at + 1] : process.env.PORT);

let seed = 1;
const random = () => (seed = (seed * 48271) % 2147483647);
const products = Array.from({ length: 1000 }, (_, id) => ({
  id, name: `Product ${random() % 10000}`, group: `g${random() % 20}`, price: random() % 100000,
  stock: random() % 50,
}));

function listing(most) {
  const some = products.filter((p) => p.stock > 5 && p.price < most);
  some.sort((a, b) => a.price - b.price || (a.name < b.name ? -1 : 1));
  const groups = {};
  for (const p of some) {
    (groups[p.group] ??= []).push({ id: p.id, name: p.name, price: (p.price / 100).toFixed(2) });
  }
  return crypto.createHash('sha256').update(JSON.stringify(groups)).digest('hex');
}

let count = 0;
const server = http.createServer((req, res) => {
  if (req.url !== '/') {
    res.writeHead(404, { 'Content-Type': 'text/plain', 'Content-Length': 9 });
    return res.end('not found');
  }
  const etag = listing(90000 + (count++ % 100));
  res.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': 2, ETag: `"${etag}"` });
  res.end('ok');
});

server.keepAliveTimeout = 60_000;
server.listen(port, '127.0.0.1', 511);
process.on('SIGTERM', () => process.exit(0));
