// Server-sent events and JSON lines over HTTP/2 in clear, by Node's own server, compressed if the client asks:
// `events.js`. Prints `listening PORT`, and ends when its standard input ends.
'use strict';
const http2 = require('http2');
const zlib = require('zlib');

const server = http2.createServer();
server.on('stream', (stream, headers) => {
  stream.on('error', () => {});
  const lines = headers[':path'] === '/lines';
  const encoding = ['br', 'gzip'].find((one) => (headers['accept-encoding'] || '').includes(one));
  const answer = { ':status': 200, 'content-type': lines ? 'application/x-ndjson' : 'text/event-stream' };
  if (encoding) answer['content-encoding'] = encoding;
  stream.respond(answer);
  const output = { br: zlib.createBrotliCompress, gzip: zlib.createGzip }[encoding];
  const packed = output ? output() : stream;
  if (output) packed.pipe(stream);
  let number = 0;
  const next = () => {
    if (stream.destroyed) return;
    number += 1;
    packed.write(lines ? `{"n":${number}}\n` : `id: ${number}\r\ndata: {"n":${number}}\r\n\r\n`);
    if (output) packed.flush();
    if (number < 8) setTimeout(next, 10);
    else packed.end();
  };
  setTimeout(next, 10);
});
server.listen(0, '127.0.0.1', () => console.log(`listening ${server.address().port}`));
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
