#!/bin/sh
# Runs once, when the data folder is empty: one database for Airflow, one for the catalog, each with its own user.
set -eu

make_database() {
    psql --set=ON_ERROR_STOP=1 --set=name="$1" --set=password="$2" --username=postgres --no-psqlrc --quiet <<'SQL'
CREATE ROLE :"name" LOGIN PASSWORD :'password';
CREATE DATABASE :"name" OWNER :"name";
REVOKE ALL ON DATABASE :"name" FROM PUBLIC;
SQL
}

make_database airflow "$AIRFLOW_DB_PASSWORD"
make_database lake "$LAKE_DB_PASSWORD"
