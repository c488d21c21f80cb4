"""Two stages of a playback pipeline in five ways, on the same data: time, bytes, and who is right."""
