"""Make the bucket of the warehouse unless it is there: make_bucket.py NAME."""

import os
import sys

from pyarrow.fs import FileType, S3FileSystem


def main(name: str) -> None:
    storage = S3FileSystem(endpoint_override=os.environ["S3_ENDPOINT"], allow_bucket_creation=True)
    if storage.get_file_info(name).type == FileType.Directory:
        print(f"bucket {name} is there")
        return
    storage.create_dir(name)
    print(f"bucket {name} made")


if __name__ == "__main__":
    main(*sys.argv[1:])
