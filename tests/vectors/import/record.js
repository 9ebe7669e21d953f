// Records a visit to the demo of bench: its first page, an image, a login and two look-ups.
// node record.js http://127.0.0.1:PORT demo.har
const { chromium } = require('playwright-core');
(async () => {
  const [url, file] = process.argv.slice(2);
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
  const context = await browser.newContext({ recordHar: { path: file, content: 'embed' } });
  const page = await context.newPage();
  // The demo has no images: the browser itself answers for this one.
  await context.route('**/logo.png', route => route.fulfill({ contentType: 'image/png', body: 'x' }));
  await page.goto(url + '/');
  await page.evaluate(async () => {
    await new Promise(done => { const image = new Image(); image.onload = image.onerror = done; image.src = '/logo.png'; });
    const body = { auth: { identity: { methods: ['password'], password: { user: { name: 'user-7', domain: { id: 'default' }, password: 'demo' } } } } };
    const login = await fetch('/v3/auth/tokens', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
    const token = login.headers.get('X-Subject-Token');
    const user = (await login.json()).token.user.id;
    await new Promise(done => setTimeout(done, 350));
    for (let n = 0; n < 2; n++) await (await fetch('/v3/users/' + user, { headers: { 'X-Auth-Token': token } })).json();
  });
  await context.close();
  await browser.close();
})();
