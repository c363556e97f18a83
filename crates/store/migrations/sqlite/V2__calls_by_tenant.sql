-- The backlog of calls by tenant: a claim takes from each tenant in turn, and steps over one that has no room without
-- reading its rows.
DROP INDEX calls_backlog;
CREATE INDEX calls_backlog ON calls (tenant, visible_at) WHERE owner IS NULL;
