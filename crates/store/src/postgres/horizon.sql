-- How many transactions are held back by the oldest one that is open, and for how many microseconds that one has been. Sessions
-- show the lower half of a transaction's number, and only to those who may see them.
-- Then the same of the oldest snapshot that keeps dead rows of this database, of those that only read as well. Slots say which
-- transaction they need, not since when. Vacuum's own does not count.
-- Then whether commits are durable, and whether they wait for a standby if there is one.
WITH horizon AS (
    SELECT pg_snapshot_xmin(s)::text::bigint AS low, pg_snapshot_xmax(s)::text::bigint AS high
    FROM pg_current_snapshot() AS s
), held AS (
    SELECT unnest(ARRAY[a.backend_xmin, a.backend_xid]) AS xmin, a.xact_start AS since FROM pg_stat_activity a
    WHERE a.pid <> pg_backend_pid() AND (a.datname = current_database() AND a.backend_type <> 'autovacuum worker'
        OR a.backend_type = 'walsender')
    UNION ALL SELECT p.transaction, p.prepared FROM pg_prepared_xacts p WHERE p.database = current_database()
    UNION ALL SELECT unnest(ARRAY[s.xmin, s.catalog_xmin]), NULL FROM pg_replication_slots s
), oldest AS (
    SELECT coalesce(max(age(xmin)), 0)::bigint AS transactions,
        (extract(epoch FROM max(clock_timestamp() - since)) * 1000000)::bigint AS us
    FROM held WHERE xmin IS NOT NULL
)
SELECT high - low, (extract(epoch FROM clock_timestamp() - coalesce(
    (SELECT a.xact_start FROM pg_stat_activity a WHERE a.backend_xid::text::bigint = low & 4294967295 LIMIT 1),
    (SELECT p.prepared FROM pg_prepared_xacts p WHERE p.transaction::text::bigint = low & 4294967295 LIMIT 1)
)) * 1000000)::bigint,
oldest.transactions,
CASE WHEN oldest.us IS NOT NULL THEN oldest.us
    WHEN oldest.transactions = 0 AND pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') THEN 0 END,
current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on' AND current_setting('synchronous_commit') <> 'off',
NOT EXISTS (SELECT 1 FROM pg_stat_replication)
    OR current_setting('synchronous_standby_names') <> '' AND current_setting('synchronous_commit') NOT IN ('off', 'local')
FROM horizon, oldest
