-- One row a key: dbt's "append" is an upsert into a table with a primary key.
{{ config(materialized="incremental", incremental_strategy="append",
          tblproperties={"primary-key": "id", "bucket": "2"}) }}
select id, customer, amount, updated from {{ ref("raw_orders") }}
{% if is_incremental() %} where updated > (select max(updated) from {{ this }}) {% endif %}
