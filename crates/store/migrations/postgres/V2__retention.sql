-- What retention looks for: instances by their end, keys of starts by their age, dead letters and datasets by the
-- instance they belong to.
CREATE INDEX wf_instances_ended ON wf_instances (ended_at, id) WHERE ended_at IS NOT NULL;
CREATE INDEX inbox_starts ON inbox (created_at) WHERE scope = 'start';
CREATE INDEX wf_dlq_instance ON wf_dlq (tenant, instance) WHERE instance IS NOT NULL;

-- The instance whose step made the dataset; null for one that was uploaded.
ALTER TABLE datasets ADD COLUMN owner uuid;
CREATE INDEX datasets_owner ON datasets (tenant, owner) WHERE owner IS NOT NULL;

-- What people did with a task goes when the task itself has gone, and not before.
DROP TRIGGER wf_task_events_stay ON wf_task_events;
CREATE OR REPLACE FUNCTION wf_task_events_stay() RETURNS trigger LANGUAGE plpgsql AS
$$
BEGIN
    IF TG_OP = 'DELETE' AND NOT EXISTS (SELECT 1 FROM wf_tasks WHERE tenant = OLD.tenant AND id = OLD.task) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'wf_task_events is append-only';
END
$$;
CREATE TRIGGER wf_task_events_stay BEFORE UPDATE OR DELETE ON wf_task_events
    FOR EACH ROW EXECUTE FUNCTION wf_task_events_stay();
