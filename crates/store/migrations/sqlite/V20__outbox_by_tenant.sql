-- What a tenant has emitted is published in its own order, and nobody waits for another tenant's: the index ends with the
-- row's number, which is the order of commits.
CREATE INDEX outbox_by_tenant ON outbox (tenant);
