"""The documentation as a website (``make docs``): pages, navigation, versions, and whether links lead somewhere."""
