{# Copy this file into the macros of your project: it makes `source()` incremental.

   source('db', 'playback')          the captured table, if the var `captured_sources` has one for it; else the table
   whole_source('db', 'playback')    always the table

   Airflow gives the var:  dbt run --vars '{"captured_sources": {"db.playback": "icdc.db_playback_1a2b"}}'
#}

{% macro source(source_name, table_name) %}
  {%- set whole = builtins.source(source_name, table_name) -%}
  {%- set captured = var('captured_sources', {}).get(source_name ~ '.' ~ table_name) -%}
  {%- if not captured -%}
    {{ return(whole) }}
  {%- endif -%}
  {%- if execute and flags.FULL_REFRESH -%}
    {{ exceptions.raise_compiler_error(
      "--full-refresh with captured sources would rebuild the target from " ~ captured ~ " alone. Trigger the DAG with "
      ~ "ips_run=full, which captures all rows, or run dbt without the var captured_sources."
    ) }}
  {%- endif -%}
  {%- set namespace, _, name = captured.rpartition('.') -%}
  {{ return(whole.incorporate(path={"schema": namespace, "identifier": name})) }}
{% endmacro %}

{% macro whole_source(source_name, table_name) %}
  {{ return(builtins.source(source_name, table_name)) }}
{% endmacro %}
