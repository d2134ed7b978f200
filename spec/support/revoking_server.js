// Stands over TLS before the storage emulator, and refuses tokens that say of themselves that they are revoked, as the
// service does: with a challenge. Says which tokens it has seen. Also a proxy: CONNECT to any name leads to itself.
// Arguments: the key's file, the certificate's, the emulator's port. Ends when its standard input does.
"use strict";

const { readFileSync } = require("fs");
const http = require("http");
const https = require("https");
const net = require("net");

process.stdin.on("end", () => process.exit(0)).resume();

const [keyFile, certFile, target] = process.argv.slice(2);
const key = readFileSync(keyFile), cert = readFileSync(certFile);

function claims(request) {
  const [, , payload] = /^Bearer ([^.]+)\.([^.]+)\./.exec(request.headers.authorization || "") || [];
  return payload ? JSON.parse(Buffer.from(payload, "base64url")) : {};
}

const server = https.createServer({ key, cert }, (request, response) => {
  const { number, revoked } = claims(request);
  console.log(`${request.method} ${request.headers.host} token ${number} ${revoked ? "revoked" : "good"}`);
  if (revoked) {
    response.writeHead(401, {
      "x-ms-request-id": "5a6f5a0b-0000-0000-0000-000000000000", "x-ms-error-code": "InvalidAuthenticationInfo",
      "www-authenticate": 'Bearer authorization_uri="https://login.microsoftonline.com/other/oauth2/authorize" '
        + 'resource_id="https://storage.azure.com"',
    });
    return response.end();
  }
  const options = { host: "127.0.0.1", port: target, path: request.url, method: request.method, headers: request.headers,
    rejectUnauthorized: false };
  const forward = https.request(options, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  request.pipe(forward.on("error", () => response.destroy()));
});

const proxy = http.createServer((request, response) => {
  console.log("PROXY " + request.url);
  response.end("no tunnel");
});
proxy.on("connect", (request, client) => {
  console.log("CONNECT " + request.url);
  const upstream = net.connect(server.address().port, "127.0.0.1", () => {
    client.write("HTTP/1.1 200 OK\r\n\r\n");
    upstream.pipe(client).pipe(upstream);
  });
  client.on("error", () => upstream.destroy());
  upstream.on("error", () => client.destroy());
});

server.listen(0, "127.0.0.1", () => {
  proxy.listen(0, "127.0.0.1", () => {
    console.log("proxy " + proxy.address().port);
    console.log("port " + server.address().port);
  });
});
