-- Secrets of the deployment as a whole, made by the first node that needs one.
CREATE TABLE deployment_keys (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL CHECK (length(value) = 32)
) WITHOUT ROWID;
