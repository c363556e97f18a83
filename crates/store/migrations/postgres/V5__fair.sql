-- A tenant of weight 2 is given twice as much as one of weight 1 where both wait.
ALTER TABLE tenants ADD COLUMN weight bigint NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 1000);

-- The backlog by tenant: a claim that cannot take all that is due takes from each tenant its share.
CREATE INDEX wf_signal_q_backlog_of ON wf_signal_q (tenant, visible_at) WHERE owner IS NULL;
CREATE INDEX wf_schedule_q_backlog_of ON wf_schedule_q (tenant, due_at) WHERE owner IS NULL;
