-- Rows are changed by their primary key. While a table is young its statistics say nothing, and any index that begins with
-- the tenant and holds the id looks as good: an update then walks over all entries of the tenant. An index whose first
-- column the statement does not name never looks as good. Lists name all columns, so their order is all the same to them.
DROP INDEX wf_instances_status;
CREATE INDEX wf_instances_status ON wf_instances (status, tenant, id);
DROP INDEX wf_tasks_status;
CREATE INDEX wf_tasks_status ON wf_tasks (status, tenant, id);
DROP INDEX wf_tasks_instance;
CREATE INDEX wf_tasks_instance ON wf_tasks (instance, tenant, id);
DROP INDEX subscriptions_wanted;
CREATE INDEX subscriptions_wanted ON subscriptions (event_type, tenant, kind, path, value);
