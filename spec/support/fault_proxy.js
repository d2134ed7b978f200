// Stands between the specs and the servers at the ports given, one listening port for each, and does harm to the
// requests that it was told of: spec/support/fault_proxy.lua says how. Ends when its standard input does.
"use strict";

const http = require("http");

process.stdin.on("end", () => process.exit(0)).resume();

const DELAY_MS = 150;  // shorter than any try
const LATE_MS = 1500;  // longer than a try and the rest after it
const FLUSH_MS = 20;   // for what was sent before a reset
const TOO_MUCH = 100;  // bytes that are announced and never come
const GARBAGE = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 this is no answer\r\n\r\n";

/** What was said of requests, by a part of their path: { from, fault, ever, passed, pending }. */
const plans = new Map();

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const agent = new http.Agent({ keepAlive: true });

const PORTAL = { status: 200, message: "OK", headers: ["Content-Type", "text/html"], body: Buffer.from("<html>Log in</html>") };
const refusal = (status, message, ...headers) => ({
  status, message, headers: ["x-ms-request-id", "11111111-2222-3333-4444-555555555555", ...headers], body: Buffer.alloc(0),
});
const busy = (seconds) => refusal(503, "Server Busy", "x-ms-error-code", "ServerBusy", "Retry-After", String(seconds));

/** The bytes of an answer; `more` that many too few. */
function bytesOf(reply, more = 0) {
  const head = [`HTTP/1.1 ${reply.status} ${reply.message}`, `Content-Length: ${reply.body.length + more}`];
  for (let i = 0; i < reply.headers.length; i += 2) head.push(`${reply.headers[i]}: ${reply.headers[i + 1]}`);
  return Buffer.concat([Buffer.from(head.join("\r\n") + "\r\n\r\n", "latin1"), reply.body]);
}

async function resetAfter(socket, bytes) {
  socket.write(bytes);
  await sleep(FLUSH_MS);
  socket.resetAndDestroy();
}

/** Each fault: `x.forward()` lets the server do what is asked, `x.pass(reply)` answers as it did. */
const FAULTS = {
  "none": async (x) => x.pass(await x.forward()),
  // on the way there
  "drop-request": () => {},
  "reset": (x) => x.socket.resetAndDestroy(),
  "late": (x) => sleep(LATE_MS).then(x.forward),
  // on the way back
  "drop-answer": (x) => x.forward(),
  "reset-answer": (x) => x.forward().then(() => x.socket.resetAndDestroy()),
  "delay": async (x) => {
    const reply = await x.forward();
    await sleep(DELAY_MS);
    x.pass(reply);
  },
  "cut-head": async (x) => x.socket.end(bytesOf(await x.forward()).subarray(0, 30)),
  "truncate": async (x) => x.socket.end(bytesOf(await x.forward(), TOO_MUCH)),
  "reset-body": async (x) => resetAfter(x.socket, bytesOf(await x.forward(), TOO_MUCH)),
  "garbage": (x) => x.forward().then(() => x.socket.end(GARBAGE, "latin1")),
  "garbage-behind": async (x) => x.socket.write(Buffer.concat([x.bytes(await x.forward()), Buffer.from(GARBAGE, "latin1")])),
  "garbage-body": async (x) => {
    const reply = await x.forward();
    const type = reply.headers.join("\n").match(/^content-type\n(.*)/im) || [""];
    x.pass(/xml|json|multipart/.test(type[0]) ? { ...reply, body: Buffer.from("<?xml version='1.0'?><{\"a\":[") } : reply);
  },
  // refusals
  "busy": (x) => x.pass(busy(1)),
  "busy-long": (x) => x.pass(busy(60)),
  "many": (x) => x.pass(refusal(429, "Too Many Requests")),
  "error-after": (x) => x.forward().then(() => x.pass(refusal(500, "Internal", "x-ms-error-code", "InternalError"))),
  "portal": (x) => x.pass(PORTAL),
};

const HOP = /^(connection|keep-alive|transfer-encoding|content-length)$/i;

/** Has the server answer; the promise is kept also when the client has gone. */
function forward(port, req, body) {
  return new Promise((resolve, reject) => {
    const headers = req.rawHeaders;
    const out = http.request({ host: "127.0.0.1", port, method: req.method, path: req.url, headers, agent }, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part)).on("end", () => {
        const kept = [];
        for (let i = 0; i < answer.rawHeaders.length; i += 2) {
          const bare = req.method === "HEAD" && /^content-length$/i.test(answer.rawHeaders[i]);
          if (bare || !HOP.test(answer.rawHeaders[i])) kept.push(answer.rawHeaders[i], answer.rawHeaders[i + 1]);
        }
        resolve({ status: answer.statusCode, message: answer.statusMessage, headers: kept, body: Buffer.concat(parts) });
      });
    });
    out.on("error", reject).end(body);
  });
}

/** Is it in the text as a whole: "a7", and not in "a71"? */
function names(text, part) {
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + 1)) {
    if (!/[a-z0-9]/i.test(text.charAt(at + part.length))) return true;
  }
  return false;
}

/** The plan that a request falls under: the table of a batch, or of one to be made, is told in its body. */
function planFor(url, body) {
  const text = url + (/\/(\$batch|Tables)/.test(url) ? body.toString("latin1") : "");
  for (const [part, plan] of plans) if (names(text, part)) return plan;
  return null;
}

async function serve(port, req, res, body) {
  const plan = planFor(req.url, body);
  const hit = plan && (plan.passed.length + 1 === plan.from || (plan.ever && plan.passed.length + 1 > plan.from));
  const fault = hit ? plan.fault : "none";
  if (plan) plan.passed.push({ request: `${req.method} ${req.url}`, fault });
  const pass = (reply) => {
    const bare = req.method === "HEAD" || reply.status === 204 || reply.status === 304;
    res.writeHead(reply.status, reply.message, bare ? reply.headers : [...reply.headers, "Content-Length", reply.body.length]);
    res.end(bare ? undefined : reply.body);
  };
  const bytes = (reply) => (reply.status === 204 || req.method === "HEAD"
    ? Buffer.from(bytesOf(reply).toString("latin1").replace(/Content-Length: 0\r\n/, ""), "latin1") : bytesOf(reply));
  if (plan) plan.pending += 1;
  try {
    await FAULTS[fault]({ forward: () => forward(port, req, body), pass, bytes, socket: req.socket });
  } catch (error) {
    req.socket.destroy();
  }
  if (plan) plan.pending -= 1;
}

/** /-/plan?part=&from=&fault=&ever= begins, /-/passed?part= tells, /-/forget?part= ends. */
function control(req, res) {
  const url = new URL(req.url, "http://proxy");
  const asked = url.searchParams;
  const part = asked.get("part");
  let answer = plans.get(part);
  if (url.pathname === "/-/plan") {
    const known = FAULTS[asked.get("fault")];
    answer = { from: Number(asked.get("from")), fault: asked.get("fault"), ever: asked.has("ever"), passed: [], pending: 0 };
    if (known) plans.set(part, answer);
    res.statusCode = known ? 200 : 400;
  } else if (url.pathname === "/-/forget") {
    plans.delete(part);
  }
  res.end(JSON.stringify(answer || null));
}

function listen(port) {
  const server = http.createServer((req, res) => {
    const parts = [];
    req.socket.on("error", () => {}).setNoDelay(true);
    req.on("data", (part) => parts.push(part)).on("end", () => {
      if (req.url.startsWith("/-/")) control(req, res);
      else serve(port, req, res, Buffer.concat(parts));
    });
  });
  server.keepAliveTimeout = 0;
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address().port)));
}

Promise.all(process.argv.slice(2).map((port) => listen(Number(port)))).then((ports) => console.log("port " + ports.join(" ")));
