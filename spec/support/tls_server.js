// Answers "hello" over TLS: the key's and the certificate's files are its arguments. Ends when its standard input does.
"use strict";

const { readFileSync } = require("fs");
const https = require("https");

process.stdin.on("end", () => process.exit(0)).resume();

const [key, cert] = process.argv.slice(2).map((path) => readFileSync(path));
const server = https.createServer({ key, cert }, (request, response) => response.end("hello"));
server.listen(0, "127.0.0.1", () => console.log("port " + server.address().port));
