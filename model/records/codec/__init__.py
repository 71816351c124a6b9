"""Bytes of records: fields, streams, compression, and the error of wrong bytes."""
