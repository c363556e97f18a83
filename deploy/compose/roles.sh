#!/bin/sh
# Two roles and their database, made once, while the server's folder is new: the owner makes tables, nodes connect as
# the other one, which row security binds.
set -eu
psql -v ON_ERROR_STOP=1 -v owner="$OWNER_PASSWORD" -v app="$APP_PASSWORD" --username "$POSTGRES_USER" --dbname postgres <<'SQL'
CREATE ROLE windlass_owner LOGIN PASSWORD :'owner';
CREATE ROLE windlass_app LOGIN PASSWORD :'app';
CREATE DATABASE windlass OWNER windlass_owner;
SQL
