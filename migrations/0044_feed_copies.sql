-- What distinguishes copies of a database that publish the same feed.
--
-- The OID of the database in which the cursor was written: two databases of one server have the same system identifier and
-- timeline. Null until a leader of this version has taken the lease.
--
-- A random number of the batch that is being published. Its messages carry it. A copy of the database, also of the server's
-- files, fixes other batches under the same numbers.
ALTER TABLE noetl.tail_cursor
    ADD COLUMN IF NOT EXISTS database_oid OID,
    ADD COLUMN IF NOT EXISTS batch_id     BIGINT;
