"""Writing records of one schema as Avro, from Iceberg's types: compiled once, then a call per field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

from airflow_provider_ips.iceberg.avro import encode_long

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Encode = Callable[[Any], bytes]


def encoder_of(field_type: IcebergType) -> Encode:
    """How to write a value of one of the types that metadata files are made of."""
    if isinstance(field_type, IntegerType | LongType):
        return encode_long
    if isinstance(field_type, StringType):
        return lambda value: _sized(value.encode())
    if isinstance(field_type, BinaryType):
        return _sized
    if isinstance(field_type, BooleanType):
        return lambda value: b"\x01" if value else b"\x00"
    if isinstance(field_type, ListType):
        return _list_encoder(encoder_of(field_type.element_type))
    if isinstance(field_type, StructType):
        return struct_encoder([(place, field) for place, field in enumerate(field_type.fields)])
    raise TypeError(f"{field_type} is part of no metadata file that is written here")


def struct_encoder(fields: Sequence[tuple[int, NestedField]]) -> Encode:
    """How to write a record, of which each field is taken from a place."""
    encoders = [(place, _field_encoder(field)) for place, field in fields]
    return lambda record: b"".join([encode(record[place]) for place, encode in encoders])


def _field_encoder(field: NestedField) -> Encode:
    encode = encoder_of(field.field_type)
    if field.required:
        return encode
    return lambda value: b"\x00" if value is None else b"\x02" + encode(value)


def _list_encoder(item: Encode) -> Encode:
    def encode(values: Sequence[Any]) -> bytes:
        if not values:
            return b"\x00"
        return b"".join((encode_long(len(values)), *(item(value) for value in values), b"\x00"))

    return encode


def _sized(value: bytes) -> bytes:
    return encode_long(len(value)) + value
