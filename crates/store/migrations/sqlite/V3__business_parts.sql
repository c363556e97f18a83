-- Instances whose business key has parts, for looking them up by part.
CREATE INDEX wf_instances_parts ON wf_instances (tenant, id) WHERE business_parts IS NOT NULL;
