// Stands before a server at the port given, and loses the first answer to each request whose path has a part "lost-..." or "Lost...":
// the server has carried it out, and the client does not learn of it. Ends when its standard input does.
"use strict";

const net = require("net");

process.stdin.on("end", () => process.exit(0)).resume();

const target = Number(process.argv[2]);
const seen = new Set();

/* The request's line when its answer is to be lost. */
function loses(data) {
  const line = (/^(?:PUT|DELETE|POST|PATCH) \S*\/(?:lost-|Lost)\S*/.exec(data.toString("latin1")) || [])[0];
  if (!line || seen.has(line)) return false;
  seen.add(line);
  return true;
}

const server = net.createServer((client) => {
  const upstream = net.connect(target, "127.0.0.1");
  let lose = false;
  client.on("error", () => {}).on("close", () => upstream.destroy());
  upstream.on("error", () => {}).on("close", () => client.destroy());
  client.on("data", (data) => {
    lose = loses(data);
    upstream.write(data);
  });
  upstream.on("data", (data) => (lose ? client.resetAndDestroy() : client.write(data)));
});

server.listen(0, "127.0.0.1", () => console.log("port " + server.address().port));
