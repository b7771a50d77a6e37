-- The role of the servers, which owns their database and is no superuser. Postgres runs this file at its first start.
\getenv password NOETL_DB_PASSWORD
CREATE ROLE noetl LOGIN PASSWORD :'password';
-- To see how long transactions of other roles are open.
GRANT pg_read_all_stats TO noetl;
CREATE DATABASE noetl OWNER noetl;
