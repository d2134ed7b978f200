// A server that answers as told by the last part of the path, and as no server should: for specs of what
// is not in order. The words below are the parts; "count/WORD" tells how many requests came for WORD, and
// "connections" how many connections were made. Ends when its standard input does.
"use strict";

const net = require("net");

process.stdin.on("end", () => process.exit(0)).resume();

const counts = {};
let connections = 0;

function answer(status, headers, body) {
  const lines = Object.entries({ "Content-Length": Buffer.byteLength(body), ...headers });
  return `HTTP/1.1 ${status}\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n${body}`;
}

const OURS = { "x-ms-request-id": "11111111-2222-3333-4444-555555555555", "x-ms-version": "2021-12-02" };
const XML = { ...OURS, "Content-Type": "application/xml" };
const LIST = '\ufeff<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs><Blob><Name>a</Name><Properties>'
  + "<Etag>0x1</Etag></Properties></Blob></Blobs><NextMarker /></EnumerationResults>";
const BOMB = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
  + "<EnumerationResults><Blobs><Blob><Name>&b;</Name></Blob></Blobs></EnumerationResults>";

const JSON_TYPE = { ...OURS, "Content-Type": "application/json;odata=minimalmetadata" };
const page = (...entities) => answer("200 OK", JSON_TYPE, `{"value":[${entities.join(",")}]}`);
const entity = (text) => `{"PartitionKey":"p","RowKey":"r","Timestamp":"2026-01-02T03:04:05Z"${text ? "," + text : ""}}`;
const refusal = (status, code) => answer(status, JSON_TYPE,
  `{"odata.error":{"code":"${code}","message":{"lang":"en-US","value":"Said so.\\nRequestId:1"}}}`);

const WORDS = {
  "JsonFine()": page(entity('"n@odata.type":"Edm.Int64","n":"5","f":1.0,"i":7,"no":null,"t@odata.type":"Edm.DateTime","t":"2026-01-02T03:04:05Z"')),
  "JsonNone()": page(),
  "JsonCut()": page(entity('"s":"text"')).replace(/"text".*$/, '"te' + " ".repeat(8)),
  "JsonEmpty()": answer("200 OK", JSON_TYPE, ""),
  "JsonHtml()": answer("200 OK", JSON_TYPE, "<html></html>"),
  "JsonList()": answer("200 OK", JSON_TYPE, "[]"),
  "JsonOther()": answer("200 OK", JSON_TYPE, '{"value":{}}'),
  "JsonKeyless()": page('{"PartitionKey":"p"}'),
  "JsonType()": page(entity('"v@odata.type":"Edm.Strange","v":"x"')),
  "JsonWrong()": page(entity('"v@odata.type":"Edm.Int64","v":"five"')),
  "JsonNested()": page(entity('"v":{"a":1}')),
  "JsonTwice()": page(entity('"v":1,"v":2')),
  "JsonTime()": page(entity('"v@odata.type":"Edm.DateTime","v":"tomorrow"')),
  "JsonBytes()": page(entity('"v@odata.type":"Edm.Binary","v":"A"')),
  "JsonMany()": page(entity([...Array(5000).keys()].map((i) => `"p${i}":1`).join(","))),
  "JsonDeep()": answer("200 OK", JSON_TYPE, '{"value":' + "[".repeat(100000)),
  "JsonNul()": page('{"PartitionKey":"p","RowKey":"a\\u0000b"}'),
  "JsonBusy()": refusal("503 Server Busy", "ServerBusy"),
  "JsonGone()": refusal("404 Not Found", "TableNotFound"),
  "JsonInput()": refusal("400 Bad", "InvalidInput"),
  "JsonNew()": refusal("409 Conflict", "SomethingNew"),
  "JsonMute()": answer("404 Not Found", JSON_TYPE, ""),
  "fine-list": answer("200 OK", XML, LIST),
  "encoded-list": answer("200 OK", XML, LIST.replace("<Name>a", '<Name Encoded="true">a%0Bb%25%7')),
  "ok": answer("200 OK", OURS, "hello"),
  "much-metadata": answer("200 OK", { ...OURS, "x-ms-meta-a": "x".repeat(12000), "x-ms-meta-b": "y".repeat(12000) }, "hello"),
  "first-year": answer("200 OK", { ...OURS, "Last-Modified": "Mon, 01 Jan 1601 00:00:00 GMT" }, "hello"),
  "cut-xml": answer("200 OK", XML, LIST.slice(0, 120)),
  "no-xml": answer("200 OK", XML, "this is no XML at all"),
  "other-xml": answer("200 OK", XML, "<html><body/></html>"),
  "empty-list": answer("200 OK", XML, ""),
  "bomb": answer("200 OK", XML, BOMB),
  "deep": answer("200 OK", XML, "<EnumerationResults>" + "<a>".repeat(5000) + "</a>".repeat(5000) + "</EnumerationResults>"),
  "nameless": answer("200 OK", XML, "<EnumerationResults><Blobs><Blob></Blob></Blobs></EnumerationResults>"),
  "html": answer("200 OK", { "Content-Type": "text/html", Server: "nginx" }, "<html>Log in to the wireless network</html>"),
  "gateway": answer("502 Bad Gateway", { "Content-Type": "text/html" }, "<html>502</html>"),
  "proxy-login": answer("407 Proxy Authentication Required", {}, ""),
  "login.example:443": answer("407 Proxy Authentication Required", { "Proxy-Authenticate": 'Basic realm="x"' }, ""),
  "forbidden.example:443": answer("403 Forbidden", OURS, "not through here"),
  "broken.example:443": answer("502 Bad Gateway", {}, ""),
  "redirect": answer("302 Found", { Location: "http://127.0.0.1:1/elsewhere?sig=secret" }, ""),
  "to-ok": answer("302 Found", { Location: "ok" }, ""),
  "round": answer("302 Found", { Location: "round" }, ""),
  "busy": answer("503 Server Busy", { ...OURS, "x-ms-error-code": "ServerBusy", "Retry-After": "7" }, ""),
  "many": answer("429 Too Many Requests", OURS, ""),
  "wrong-clock": answer("403 Forbidden", {
    ...OURS, "x-ms-error-code": "AuthenticationFailed", Date: new Date(Date.now() - 47 * 60000).toUTCString(),
  }, ""),
  "new-code": answer("409 Conflict", { ...OURS, "x-ms-error-code": "SomethingNew" }, ""),
  "body-code": answer("409 Conflict", XML, "<Error><Code>ContainerBeingDeleted</Code><Message>Gone.\nTime:1</Message></Error>"),
  "bad-value": answer("400 Bad", { ...XML, "x-ms-error-code": "InvalidHeaderValue" },
    "<Error><Code>InvalidHeaderValue</Code><Message>The value is wrong.\nRequestId:1</Message>"
    + "<HeaderName>x-ms-foo</HeaderName><HeaderValue>7</HeaderValue></Error>"),
  "bad-length": answer("200 OK", { ...OURS, "x-ms-blob-type": "StrangeBlob" }, ""),
  "many-headers": answer("200 OK", Object.fromEntries([...Array(900).keys()].map((i) => ["x-" + i, "v".repeat(90)])), ""),
  "repeated": "HTTP/1.1 200 OK\r\nX-One: 1\r\nX-Two: a\r\nx-two: b\r\nContent-Length: 0\r\n\r\n",
  "smtp": "220 mail.example ESMTP\r\n",
  "nothing": null,
};

function asksToWait(value, headers) {
  return answer("503 Server Busy", { ...OURS, "x-ms-error-code": "ServerBusy", "Retry-After": value, ...headers }, "");
}

/* Answers to a batch, in the service's own form: one after the other. */
const part = (status, text) => "--changesetresponse_b\r\nContent-Type: application/http\r\n"
  + `Content-Transfer-Encoding: binary\r\n\r\nHTTP/1.1 ${status}\r\nDataServiceVersion: 3.0;\r\n${text}\r\n`;
const batch = (...parts) => answer("202 Accepted",
  { ...OURS, "Content-Type": "multipart/mixed; boundary=batchresponse_a" },
  "--batchresponse_a\r\nContent-Type: multipart/mixed; boundary=changesetresponse_b\r\n\r\n" + parts.join("")
  + "--changesetresponse_b--\r\n--batchresponse_a--\r\n");
const written = (n) => part("204 No Content", `ETag: W/"datetime'2026-01-0${n}T00%3A00%3A00Z'"\r\n\r\n`);
const BATCHES = [
  batch(written(1), written(2)),
  batch(part("412 Precondition Failed", 'Content-Type: application/json\r\n\r\n{"odata.error":{"code":'
    + '"UpdateConditionNotSatisfied","message":{"lang":"en-US","value":"1:The update condition.\\nRequestId:1"}}}')),
  batch(written(1)),
  batch(part("400 Bad Request", "\r\n")),
  batch(part("400 Bad Request", '\r\n{"odata.error":{"code":"SomethingNew","message":{"lang":"en-US","value":"0:New."}}}')),
  answer("202 Accepted", OURS, "--batchresponse_a\r\nConte"),
  refusal("413 Too Large", "RequestBodyTooLarge"),
];

/* What is not just a text to send: the socket, and how many requests came on it before. */
const ACTS = {
  "reset": (socket) => socket.resetAndDestroy(),
  "close": (socket) => socket.end(),
  "half": (socket) => socket.end(answer("200 OK", { ...OURS, "Content-Length": 1000 }, "only this")),
  "half-head": (socket) => socket.end("HTTP/1.1 200 OK\r\nContent-"),
  "slow": () => {},
  "drip": (socket) => {
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
    const timer = setInterval(() => (socket.destroyed ? clearInterval(timer) : socket.write(".")), 20);
  },
  "once": (socket, before) => (before === 0 ? socket.write(WORDS.ok) : socket.resetAndDestroy()),
  "last": (socket) => {
    socket.write(WORDS.ok);
    setTimeout(() => socket.destroy(), 50);
  },
  "late": (socket) => setTimeout(() => socket.write(WORDS.ok), 100),
  "wait-seconds": (socket) => socket.write(counts["wait-seconds"] % 2 ? asksToWait("3", {}) : WORDS.ok),
  "wait-date": (socket) => socket.write(counts["wait-date"] % 2
    ? asksToWait("Sat, 21 Nov 2026 10:00:03 GMT", { Date: "Sat, 21 Nov 2026 10:00:00 GMT" }) : WORDS.ok),
  "$batch": (socket) => socket.write(BATCHES[(counts.$batch - 1) % BATCHES.length]),
  "JsonPages()": (socket, before, target) => {
    const more = { ...JSON_TYPE, "x-ms-continuation-NextPartitionKey": "1!8!cA--" };
    const last = target.includes("NextPartitionKey=1%218%21cA--&NextRowKey=1%214%21cg--");
    const empty = target.includes("NextPartitionKey=1%218%21cA--");
    socket.write(last ? page(entity('"n":3')) : empty
      ? answer("200 OK", { ...more, "x-ms-continuation-NextRowKey": "1!4!cg--" }, '{"value":[]}')
      : answer("200 OK", more, `{"value":[${entity('"n":1')},${entity('"n":2')}]}`));
  },
  "connections": (socket) => socket.write(answer("200 OK", {}, String(connections))),
};

function serve(socket, head, body, before) {
  const [method, target] = head.split(" ");
  const path = target.split("?")[0].split("/");
  const word = path[path.length - 1];
  if (path[path.length - 2] === "count") {
    socket.write(answer("200 OK", {}, String(counts[word] || 0)));
    return;
  }
  counts[word] = (counts[word] || 0) + 1;
  if (word === "echo") {
    socket.write(answer("200 OK", { "X-Method": method }, head + "\r\n\r\n" + body));
  } else if (ACTS[word]) {
    ACTS[word](socket, before, target);
  } else {
    const text = WORDS[word] || answer("404 Not Found", { ...OURS, "x-ms-error-code": "BlobNotFound" }, "");
    socket.write(method === "HEAD" ? text.slice(0, text.indexOf("\r\n\r\n") + 4) : text);
  }
}

const server = net.createServer((socket) => {
  let text = "";
  let before = 0;
  connections += 1;
  socket.on("error", () => {});
  socket.on("data", (data) => {
    text += data.toString("latin1");
    for (;;) {
      const end = text.indexOf("\r\n\r\n");
      if (end < 0) return;
      const length = Number((/^content-length: (\d+)/im.exec(text.slice(0, end + 2)) || [0, 0])[1]);
      if (text.length < end + 4 + length) return;
      serve(socket, text.slice(0, end), text.slice(end + 4, end + 4 + length), before);
      before += 1;
      text = text.slice(end + 4 + length);
    }
  });
});

server.listen(0, "127.0.0.1", () => console.log("port " + server.address().port));
