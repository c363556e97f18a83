-- What a tenant has emitted is published in its own order, and nobody waits for another tenant's.
CREATE INDEX outbox_by_tenant ON outbox (tenant, seq);
DROP INDEX outbox_seq;
