"""The tables of a fleet, in a schema of their own."""

from typing import Final

VERSION: Final = 1

# A chunk's items are one JSON array, written once. A result is one row per item that has a state:
# rows are inserted, seldom changed, so nothing bloats. Counters per chunk keep a status cheap.
SCHEMA: Final = """
create schema gateway_fleet;
create table gateway_fleet.version(version int not null);
create table gateway_fleet.plan(
  id int generated always as identity primary key, name text not null unique,
  queue text not null, digest bytea not null, size int not null, items bigint not null,
  planned timestamptz not null default now());
create table gateway_fleet.part(
  plan int not null references gateway_fleet.plan on delete cascade, number int not null,
  items json not null, primary key (plan, number));
create table gateway_fleet.chunk(
  plan int not null references gateway_fleet.plan on delete cascade, number int not null,
  queue text not null, total int not null, done int not null default 0,
  failed int not null default 0, open boolean not null default true,
  owner uuid, lease timestamptz, renewed timestamptz, pid int,
  starts int not null default 0, suspect bigint, suspicion int not null default 0,
  primary key (plan, number)) with (fillfactor = 70);
create index chunk_open on gateway_fleet.chunk(queue, plan, number) where open;
create table gateway_fleet.result(
  plan int not null references gateway_fleet.plan on delete cascade, n bigint not null,
  state text not null, once boolean not null, value json, failure json,
  attempts int not null, elapsed real not null, owner uuid, primary key (plan, n));
create index result_odd on gateway_fleet.result(plan, state, n) where state <> 'done';
create table gateway_fleet.rate(
  name text primary key, used_until double precision not null) with (fillfactor = 50);
create table gateway_fleet.worker(
  id uuid primary key, queue text not null, host text not null, seen timestamptz not null,
  lease real not null, waits_for text, since timestamptz) with (fillfactor = 50);
"""
