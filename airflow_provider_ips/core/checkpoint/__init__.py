"""The checkpoint of a consumer: its document, how captures, commits and people change it, and its stores."""
