"""The tables of plans in PostgreSQL, and the statements on them; `{schema}` is filled in."""

from typing import Final

TABLES_VERSION: Final = 1
"""The version of the tables; other versions are refused."""

FIND_VERSION: Final = "select version from {schema}.tables_version"

# Two workers may create the tables at the same time: the second one waits for the lock, and then
# finds all there. The key of the lock is the text "gwfleet" in hexadecimal digits.
CREATE: Final = """
select pg_advisory_xact_lock(x'6777666c656574'::bigint);
create schema if not exists {schema};
create table if not exists {schema}.tables_version (
    only_row boolean primary key default true check (only_row),
    version integer not null
);
create table if not exists {schema}.plan (
    name text primary key,
    id uuid not null unique,
    operation text not null,
    chunk_size integer not null,
    items bigint not null,
    digest text not null,
    version integer not null,
    sealed_at timestamptz not null default now()
);
create table if not exists {schema}.items (
    plan_id uuid,
    chunk integer,
    name text not null,
    items text[] not null,
    primary key (plan_id, chunk)
);
create index if not exists items_name on {schema}.items (name, plan_id);
create table if not exists {schema}.result (
    plan_id uuid,
    index bigint,
    state text not null,
    starter uuid,
    value text,
    failure text,
    reason text,
    is_safe boolean not null default false,
    attempts integer not null default 0,
    elapsed double precision not null default 0,
    stored_at timestamptz not null default now(),
    primary key (plan_id, index)
);
create index if not exists result_not_done on {schema}.result (plan_id, index)
    where state <> 'done';
create table if not exists {schema}.chunk (
    plan_id uuid,
    chunk integer,
    state text not null,
    starts integer not null,
    message text not null default '',
    at timestamptz not null default now(),
    primary key (plan_id, chunk)
);
insert into {schema}.tables_version (version) values ({version}) on conflict do nothing;
"""

# The guarantee of `begin` needs a commit that reaches the disk, whatever the server's default is.
SYNCHRONOUS: Final = """
select set_config('synchronous_commit', 'on', false)
where current_setting('synchronous_commit') = 'off'
"""

FIND_PLAN: Final = """
select name, id, operation, chunk_size, items, digest, version from {schema}.plan where name = $1
"""

WRITE_ITEMS: Final = """
insert into {schema}.items (plan_id, chunk, name, items) values ($1, $2, $3, $4)
on conflict (plan_id, chunk) do update set items = excluded.items
"""

SEAL: Final = """
insert into {schema}.plan (name, id, operation, chunk_size, items, digest, version)
values ($1, $2, $3, $4, $5, $6, $7) on conflict (name) do nothing
"""

DISCARD_OTHERS: Final = """
delete from {schema}.items i using {schema}.plan p
where i.name = $1 and p.name = $1 and i.plan_id <> p.id
"""

DISCARD: Final = """
delete from {schema}.items i where i.name = $1 and i.plan_id = $2
and not exists (select from {schema}.plan p where p.id = i.plan_id)
"""

READ_ITEMS: Final = "select items from {schema}.items where plan_id = $1 and chunk = $2"

KNOWN: Final = """
select index, state from {schema}.result where plan_id = $1 and index >= $2 and index < $3
"""

# The same starter may ask again: it did not hear the answer.
BEGIN: Final = """
insert into {schema}.result as r (plan_id, index, state, starter) values ($1, $2, 'begun', $3)
on conflict (plan_id, index) do update set starter = excluded.starter
where r.starter = excluded.starter and r.state = 'begun'
returning 1
"""

SETTLE_UNKNOWN: Final = """
update {schema}.result set state = 'unknown', stored_at = now()
where plan_id = $1 and index = any($2::bigint[]) and state = 'begun'
"""

RELEASE: Final = """
delete from {schema}.result
where plan_id = $1 and index = any($2::bigint[]) and starter = $3 and state in ('begun', 'unknown')
"""

# Of items that another delivery began, a request may be under way. That may also have happened
# after this statement was committed and its answer was lost: the failure was forgotten meanwhile.
# A column without values may be an empty array: `unnest` fills it up.
WRITE_RESULTS: Final = """
insert into {schema}.result as r
    (plan_id, index, state, value, failure, reason, is_safe, attempts, elapsed, starter)
select $1, r.index, r.state, r.value, r.failure, r.reason, coalesce(r.is_safe, false), r.attempts,
    r.elapsed, r.starter
from unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::boolean[],
    $8::integer[], $9::double precision[], $10::uuid[])
    as r (index, state, value, failure, reason, is_safe, attempts, elapsed, starter)
on conflict (plan_id, index) do update set
    state = excluded.state, value = excluded.value, failure = excluded.failure,
    reason = excluded.reason, is_safe = excluded.is_safe, attempts = excluded.attempts,
    elapsed = excluded.elapsed, stored_at = excluded.stored_at
where r.state in ('begun', 'unknown') and r.starter = excluded.starter
"""

COUNTS: Final = """
select state, reason, count(*) as number from {schema}.result where plan_id = $1
group by state, reason order by number desc, reason
"""

# The chunks from $2 to before $3, of $4 items each, of a plan of $5 items.
MISSING: Final = """
select c.chunk from generate_series($2::bigint, $3::bigint - 1) as c (chunk)
left join (
    select index / $4::bigint as chunk, count(*) as number from {schema}.result
    where plan_id = $1 and state <> 'begun'
    and index >= $2::bigint * $4::bigint and index < $3::bigint * $4::bigint
    group by 1
) as r using (chunk)
where coalesce(r.number, 0) < least($4::bigint, $5::bigint - c.chunk * $4::bigint)
order by c.chunk
"""

# The chunks from $2 to before $3, of $4 items each.
RESULTS: Final = """
select r.index, r.state, i.item, r.value, r.failure, r.attempts, r.elapsed
from {schema}.items c
cross join lateral unnest(c.items) with ordinality as i (item, place)
join {schema}.result r
    on r.plan_id = c.plan_id and r.index = c.chunk * $4::bigint + i.place - 1
where c.plan_id = $1 and c.chunk >= $2::bigint and c.chunk < $3::bigint
order by r.index
"""

# At most $4 of them, behind the index $2, in a plan with chunks of $3 items.
UNKNOWN: Final = """
select r.index, r.state, c.items[r.index % $3::bigint + 1] as item, r.value, r.failure,
    r.attempts, r.elapsed
from {schema}.result r
join {schema}.items c on c.plan_id = r.plan_id and c.chunk = r.index / $3::bigint
where r.plan_id = $1 and r.index > $2::bigint and r.state = 'unknown'
order by r.index limit $4
"""

FORGET_FAILED: Final = """
with gone as (
    delete from {schema}.result where plan_id = $1 and state = 'failed' and is_safe returning 1
)
select count(*) from gone
"""

START_CHUNK: Final = """
insert into {schema}.chunk as c (plan_id, chunk, state, starts) values ($1, $2, 'running', 1)
on conflict (plan_id, chunk) do update
set state = 'running', starts = c.starts + 1, message = '', at = now()
returning starts
"""

MARK_CHUNK: Final = """
insert into {schema}.chunk as c (plan_id, chunk, state, starts, message)
values ($1, $2, $3, case when $3 = 'waiting' then 0 else 1 end, $4)
on conflict (plan_id, chunk) do update set
    state = excluded.state, message = excluded.message, at = now(),
    starts = case when excluded.state = 'waiting' then 0 else c.starts end
"""

CLEAR_CHUNK: Final = "delete from {schema}.chunk where plan_id = $1 and chunk = $2"

OPEN_CHUNKS: Final = """
select chunk, state, starts, message, at from {schema}.chunk
where plan_id = $1 and chunk > $2 order by chunk limit $3
"""
