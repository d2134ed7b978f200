// Gives tokens as each kind of endpoint does, and says on its output what it was asked. What it does is told by the first
// part of the path, "a=1,b=2", which also tells the specs' cases apart:
//
//   name=X      nothing: a name of its own        life=S      the token is good for S seconds (3600)
//   slow=MS     answers after a while             hang        never does
//   fail=N      the first N answers are 500       status=N    every answer has that status
//   once        every answer but the first is 503      retry=S     what is not 200 asks for a rest of S seconds
//   body=X      with this body                    deny        invalid_client, with all it was sent repeated
//   audience=X  for somebody else                 stale       the token has expired when it comes
//   revoke=N    the first N tokens are revoked (revoking_server.js knows them)
//   on          expires_on since 2024-01-01 (where the virtual clock begins) and no expires_in
//
// The account's server reads the tokens' claims and does not verify their signatures. Ends when its standard input does.
"use strict";

const http = require("http");

process.stdin.on("end", () => process.exit(0)).resume();

const BEGINNING_OF_VIRTUAL_TIME_S = Date.UTC(2024, 0, 1) / 1000;
const SCOPE = "https://storage.azure.com/.default";
const RESOURCE = "https://storage.azure.com/";
const counts = {};

const base64url = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

function token(options, count) {
  const now = Math.floor(Date.now() / 1000);
  const claims = {
    aud: options.audience || RESOURCE, iss: "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/",
    iat: now - 7200, nbf: now - 7200, exp: options.stale ? now - 3600 : now + 7200,
    number: count, revoked: count <= Number(options.revoke || 0),
  };
  return base64url({ typ: "JWT", alg: "none" }) + "." + base64url(claims) + ".c2lnbmF0dXJl";
}

// What kind of request it is, and with whose identity; or what is wrong with it.
function judge(request, path, query, form) {
  if (path.endsWith("/metadata/identity/oauth2/token")) {
    const ok = request.method === "GET" && request.headers.metadata === "true" && query.get("resource") === RESOURCE
      && query.get("api-version") === "2018-02-01";
    return ok ? ["imds", query.get("client_id")] : ["wrong"];
  }
  if (path.endsWith("/msi/token")) {
    const ok = request.method === "GET" && request.headers["x-identity-header"] === "header-of-the-spec"
      && query.get("resource") === RESOURCE && query.get("api-version") === "2019-08-01";
    return ok ? ["app-service", query.get("client_id")] : ["wrong"];
  }
  if (!path.endsWith("/tenant-of-the-spec/oauth2/v2.0/token") || request.method !== "POST"
      || form.get("scope") !== SCOPE || form.get("grant_type") !== "client_credentials") return ["wrong"];
  if (form.get("client_assertion_type") === "urn:ietf:params:oauth:client-assertion-type:jwt-bearer") {
    return ["workload " + form.get("client_assertion"), form.get("client_id")];
  }
  return form.get("client_secret") === "secret/of+the spec" ? ["secret", form.get("client_id")] : ["wrong"];
}

function answer(options, count, text, response) {
  const send = (status, body) => {
    const rest = options.retry && status !== 200 ? { "retry-after": options.retry } : {};
    response.writeHead(status, { "content-type": "application/json", ...rest });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  };
  if (options.deny) {
    return send(401, { error: "invalid_client", error_description: "AADSTS7000215: Wrong: " + decodeURIComponent(text) });
  }
  if (options.status || options.body || count <= Number(options.fail || 0)) {
    return send(Number(options.status || (options.body ? 200 : 500)), options.body || { error: "temporarily_unavailable" });
  }
  if (options.once && count > 1) return send(503, {});
  const life = Number(options.life || 3600);
  const good = { access_token: token(options, count), token_type: "Bearer" };
  if (options.on) good.expires_on = String(BEGINNING_OF_VIRTUAL_TIME_S + life);
  else good.expires_in = String(life);
  send(200, good);
}

http.createServer((request, response) => {
  let text = "";
  request.on("data", (data) => (text += data)).on("end", () => {
    const url = new URL(request.url, "http://localhost");
    const [, name, ...rest] = url.pathname.split("/");
    const options = Object.fromEntries(name.split(",").map((word) => {
      const [key, value] = word.split("=");
      return [key, value === undefined ? true : decodeURIComponent(value)];
    }));
    const count = (counts[name] = (counts[name] || 0) + 1);
    const [kind, client] = judge(request, "/" + rest.join("/"), url.searchParams, new URLSearchParams(text));
    console.log(`${options.name} ${count} ${kind} ${client || "-"}`);
    if (options.hang) return;
    const sent = text + (request.headers["x-identity-header"] || "");
    setTimeout(() => answer(options, count, sent, response), Number(options.slow || 0));
  });
}).listen(0, "127.0.0.1", function () { console.log("port " + this.address().port); });
