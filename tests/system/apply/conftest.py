"""One Spark session for all tests of this folder, on a catalog that Spark and PyIceberg share."""

from tests.kit.spark import lake

__all__ = ["lake"]
