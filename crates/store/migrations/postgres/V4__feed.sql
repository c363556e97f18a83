-- The order in which events were committed: by transaction, then by place in it. Events that are here already come first,
-- by id. The constant defaults rewrite no row; those that follow them are for rows to come.
ALTER TABLE events ADD COLUMN xid xid8 NOT NULL DEFAULT '0';
ALTER TABLE events ALTER COLUMN xid SET DEFAULT pg_current_xact_id();
ALTER TABLE events ADD COLUMN seq bigint NOT NULL DEFAULT 0;
-- While a table is young its statistics say nothing, and a change by key would go along any index that begins with the
-- tenant. So one begins with another column, and the other has a condition that holds for every row and that the feed alone
-- names.
CREATE INDEX events_feed ON events (tenant, xid, seq, id) WHERE xid >= '0';
DROP INDEX events_source;
CREATE UNIQUE INDEX events_source ON events (source, tenant, event_id);
