{{ config(unique_key=['event_date', 'title_id']) }}

select event_date, title_id, count(*) as events, sum(watched_seconds) as watched_seconds
from {{ whole_source('db', 'playback') }}
where (event_date, title_id) in (select event_date, title_id from {{ source('db', 'playback') }})
group by event_date, title_id
