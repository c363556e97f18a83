-- What schedules with `on` have collected and not started an instance with yet. `version` is raised by every change.
CREATE TABLE schedule_collections (
    tenant    TEXT    NOT NULL CONSTRAINT tenant_not_empty CHECK (tenant <> ''),
    schedule  BLOB    NOT NULL CONSTRAINT schedule_not_empty CHECK (length(schedule) = 16),
    version   INTEGER NOT NULL CHECK (version > 0),
    open      BLOB    NOT NULL,
    PRIMARY KEY (tenant, schedule)
);

-- Schedules that collected the event.
ALTER TABLE events ADD COLUMN collected INTEGER NOT NULL DEFAULT 0;
