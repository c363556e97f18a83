-- How many nodes that had the row ended without giving it back: what it leads to may be what ended them.
ALTER TABLE wf_signal_q ADD COLUMN taken_over bigint NOT NULL DEFAULT 0;
ALTER TABLE wf_schedule_q ADD COLUMN taken_over bigint NOT NULL DEFAULT 0;
ALTER TABLE calls ADD COLUMN taken_over bigint NOT NULL DEFAULT 0;
ALTER TABLE deliveries ADD COLUMN taken_over bigint NOT NULL DEFAULT 0;

-- What became of due times is deleted by age.
CREATE INDEX schedule_slots_age ON schedule_slots (at);
