"""Avro as Iceberg writes it: containers read and written by block, and fields found without decoding the rest."""
