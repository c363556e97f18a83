-- The trace that an event belongs to and the correlation id it carries, where it says so; an event without either is in no
-- index. Of deliveries an empty text stands for several, which the events know.
ALTER TABLE events ADD COLUMN trace_id TEXT;
ALTER TABLE events ADD COLUMN correlation_id TEXT;
ALTER TABLE deliveries ADD COLUMN trace_id TEXT;
ALTER TABLE deliveries ADD COLUMN correlation_id TEXT;

CREATE INDEX events_trace ON events (tenant, trace_id, id) WHERE trace_id IS NOT NULL;
CREATE INDEX events_correlation ON events (tenant, correlation_id, id) WHERE correlation_id IS NOT NULL;
CREATE INDEX deliveries_trace ON deliveries (tenant, trace_id, id) WHERE trace_id IS NOT NULL;
CREATE INDEX deliveries_correlation ON deliveries (tenant, correlation_id, id) WHERE correlation_id IS NOT NULL;
CREATE INDEX wf_instances_trace ON wf_instances (tenant, substr(traceparent, 4, 32), id) WHERE traceparent IS NOT NULL;
CREATE INDEX wf_instances_correlation ON wf_instances (tenant, correlation_id, id)
    WHERE correlation_id IS NOT NULL AND octet_length(correlation_id) <= 255;

-- Keys of workers stay while a dead letter may still be put back that they are for.
CREATE INDEX wf_dlq_deliveries ON wf_dlq (tenant, failed_at) WHERE source = 'delivery';
