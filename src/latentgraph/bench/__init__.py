"""Speed and memory of this library beside what one would use instead, measured in one process."""
