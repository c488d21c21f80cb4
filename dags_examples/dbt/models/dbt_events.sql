{{ config(unique_key='event_id') }}

select event_id, event_date, account_id, title_id, max(watched_seconds) as watched_seconds
from {{ source('db', 'playback') }}
group by event_id, event_date, account_id, title_id
