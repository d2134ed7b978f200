// A storage service that refuses every request, repeating all of its address, decoded. Ends when its standard input does.
"use strict";

const http = require("http");

process.stdin.on("end", () => process.exit(0)).resume();

http.createServer((request, response) => {
  const address = decodeURIComponent(request.url).replace(/&/g, "&amp;");
  response.writeHead(400, { "x-ms-request-id": "1", "content-type": "application/xml" });
  response.end(`<?xml version="1.0"?><Error><Code>InvalidQueryParameterValue</Code><Message>Wrong: ${address}</Message>`
    + `<QueryParameterValue>${address}</QueryParameterValue></Error>`);
}).listen(0, "127.0.0.1", function () { console.log("port " + this.address().port); });
