#!/usr/bin/env bash
#
# wrk adds made-up samples to its percentiles, also in a closed loop and without any option.
#
# A server answers one request of a hundred after 1 s and all others at once; it counts both. wrk (Debian's 4.1.0-3)
# with ten connections then prints a p75 of more than 100 ms, although at least 98 % of the answers took a few
# milliseconds: for each slow answer it adds one for every interval in which the connection would have sent another
# request, 990 ms, 980 ms and so on (`stats_correct` in its source). The number of requests that it prints does not
# have them. So neither wrk's percentiles nor its mean can be compared with those of a tool that prints what it measured.
#
# Needs wrk and node 20. Fails if this changes.
set -euo pipefail

command -v wrk >/dev/null || { echo 'needs wrk: apt-get install wrk' >&2; exit 1; }
folder=$(mktemp -d)
server=
# shellcheck disable=SC2329 # the trap calls it
finish() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  rm -rf -- "$folder"
}
trap finish EXIT
cd -- "$folder"

cat >server.js <<'JAVASCRIPT'
const http = require('http');
let answered = 0;
let slow = 0;
const server = http.createServer((request, response) => {
  if (request.url === '/counts') {
    response.end(JSON.stringify({ answered, slow }));
    return;
  }
  answered += 1;
  if (answered % 100 !== 0) {
    response.end('fast');
    return;
  }
  slow += 1;
  setTimeout(() => response.end('slow'), 1000);
});
server.listen(0, '127.0.0.1', () => require('fs').writeFileSync('port', String(server.address().port)));
JAVASCRIPT
node server.js &
server=$!
for _ in {1..100}; do
  [[ ! -s port ]] || break
  sleep 0.1
done
url="http://127.0.0.1:$(cat port)/"

wrk -v 2>&1 | head -n 1 | cut -d ' ' -f 1-2 || true
wrk --threads 1 --connections 10 --duration 6s --latency "$url" >wrk.txt
node - "$url" <<'JAVASCRIPT'
const text = require('fs').readFileSync('wrk.txt', 'utf8');
const p75 = /75% +([\d.]+)(us|ms|s)/.exec(text);
const milliseconds = Number(p75[1]) * { us: 0.001, ms: 1, s: 1000 }[p75[2]];
fetch(`${process.argv[2]}counts`).then((answer) => answer.json()).then(({ answered, slow }) => {
  console.log(`the server: ${slow} of ${answered} answers were slow (${(100 * slow / answered).toFixed(1)} %)`);
  console.log(`wrk: p75 of ${p75[0].split(/ +/)[1]}, ${/\d+ requests in/.exec(text)[0].replace(' in', '')}`);
  if (slow / answered > 0.02 || milliseconds < 100) {
    console.error('this has changed');
    process.exitCode = 1;
  }
});
JAVASCRIPT
