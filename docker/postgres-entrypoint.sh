#!/bin/sh
# The entry point of the PostgreSQL image that docker/base_images.py makes from Debian packages. It understands of the
# published image's variables those that compose.yaml sets, and behaves like it: the first start makes the database.
set -eu
umask 077
programs=$(echo /usr/lib/postgresql/*/bin)
PGDATA=/var/lib/postgresql/data
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    # Into a directory of its own first: a start that was interrupted leaves no half-made cluster behind.
    rm -rf "$PGDATA" "$PGDATA.new"
    "$programs/initdb" --pgdata="$PGDATA.new" --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" \
        --auth=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8
    echo "host all all all scram-sha-256" >> "$PGDATA.new/pg_hba.conf"
    if [ "$POSTGRES_DB" != "$POSTGRES_USER" ] && [ "$POSTGRES_DB" != postgres ]; then
        made="CREATE DATABASE \"$POSTGRES_DB\" OWNER \"$POSTGRES_USER\""
    else
        made="CREATE DATABASE \"$POSTGRES_USER\""
    fi
    echo "$made" | "$programs/postgres" --single -D "$PGDATA.new" postgres
    mv "$PGDATA.new" "$PGDATA"
fi
exec "$programs/postgres" -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/var/run/postgresql "$@"
