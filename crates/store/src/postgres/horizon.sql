-- How many transactions are held back by the oldest one that is open, and for how many microseconds that one has been. Sessions
-- show the lower half of a transaction's number, and only to those who may see them.
WITH horizon AS (
    SELECT pg_snapshot_xmin(s)::text::bigint AS low, pg_snapshot_xmax(s)::text::bigint AS high
    FROM pg_current_snapshot() AS s
)
SELECT high - low, (extract(epoch FROM clock_timestamp() - coalesce(
    (SELECT a.xact_start FROM pg_stat_activity a WHERE a.backend_xid::text::bigint = low & 4294967295 LIMIT 1),
    (SELECT p.prepared FROM pg_prepared_xacts p WHERE p.transaction::text::bigint = low & 4294967295 LIMIT 1)
)) * 1000000)::bigint
FROM horizon
