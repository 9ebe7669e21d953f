// Messages over WebSocket by the client of `ws`: `echoes.js URL CONNECTIONS SECONDS` opens them again and again, sends 100
// messages over each, and prints how many WebSockets there were.
'use strict';

const WebSocket = require('ws');

const [url, connections, seconds] = process.argv.slice(2);
const until = Date.now() + 1000 * seconds;
let count = 0;

function user() {
  if (Date.now() >= until) return;
  const socket = new WebSocket(url, { perMessageDeflate: false });
  let left = 100;
  socket.on('open', () => socket.send('a message of a usual length'));
  socket.on('message', (content) => {
    if (content.toString() !== 'a message of a usual length') throw new Error('another answer');
    left -= 1;
    if (left > 0) socket.send('a message of a usual length');
    else socket.close(1000);
  });
  socket.on('close', () => {
    count += 1;
    user();
  });
}

for (let number = 0; number < connections; number += 1) user();
process.on('exit', () => console.log(`${count} WebSockets`));
