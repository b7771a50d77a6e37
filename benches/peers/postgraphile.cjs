// PostGraphile as its documentation recommends for production: no query log, no GraphiQL.
// Arguments: DSN, schema, connections of the pool.

const http = require("node:http");
const { Pool } = require("pg");
const { postgraphile } = require("postgraphile");

const [dsn, schema, connections] = process.argv.slice(2);
const pool = new Pool({ connectionString: dsn, max: Number(connections), min: Number(connections) });
const api = postgraphile(pool, schema, {
  disableQueryLog: true,
  graphiql: false,
  ignoreRBAC: false,
  ignoreIndexes: false,
  dynamicJson: true,
  setofFunctionsContainNulls: false,
});
const server = http.createServer((request, response) => {
  if (request.url === "/readyz") {
    response.end("ready");
  } else {
    api(request, response);
  }
});
server.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
