// A WebSocket that sends back what it gets, by `ws`, which compresses messages if it is offered: `node echo.js`. Prints
// `listening PORT`, and ends when its standard input ends. Its answer to `wire?` says how many bytes came and went.
'use strict';

const { WebSocketServer } = require('ws');

const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: true }, () => {
  console.log(`listening ${server.address().port}`);
});
server.on('connection', (socket) => {
  const wire = socket._socket;
  socket.on('message', (content, isBinary) => {
    if (!isBinary && content.toString() === 'wire?') {
      const { bytesRead, bytesWritten } = wire;
      socket.send(JSON.stringify({ extensions: socket.extensions, bytesRead, bytesWritten }));
      return;
    }
    socket.send(content, { binary: isBinary });
  });
});
process.stdin.on('end', () => process.exit(0)).resume();
